// Where the elements of a view lie: which views can be passed, and which block is which rank's.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <type_traits>
#include <utility>

#include "values.hpp"

namespace plait::test {
namespace {

/// The index of an element in the memory that begins with the view.
template <class View, class... Indices>
std::size_t place(const View& view, Indices... at) {
  return static_cast<std::size_t>(&view(at...) - view.data());
}
/// Whether an element is what the ranks' elements add up to, or still this rank's own.
template <class View, class... Indices>
void expect_sum_or_own(bool is_sum, const View& view, Indices... at) {
  const std::size_t i = place(view, at...);
  ASSERT_TRUE(is(view(at...), is_sum ? sum(i) : element(rank(), i)))
      << view.label() << ", element " << i << " of " << view.size() << " is " << view(at...);
}

TEST(Blocks, AreRowsOfLayoutRight) {
  const Kokkos::View<int**, Right, Kokkos::HostSpace> one("one", 2, 3),
      many("many", 2 * ranks(), 3);
  number(one);
  kokkos::all_gather(comm(), one, many);
  for (std::size_t i = 0; i < many.extent(0); ++i)
    for (std::size_t j = 0; j < 3; ++j)
      EXPECT_EQ(many(i, j), static_cast<int>(100 * (i / 2) + 10 * (i % 2) + j)) << i << ", " << j;
}

TEST(Blocks, AreColumnsOfLayoutLeft) {
  const Kokkos::View<int**, Left, Kokkos::HostSpace> one("one", 2, 3), many("many", 2, 3 * ranks());
  number(one);
  kokkos::all_gather(comm(), one, many);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < many.extent(1); ++j)
      EXPECT_EQ(many(i, j), static_cast<int>(100 * (j / 3) + 10 * i + j % 3)) << i << ", " << j;
}

TEST(Blocks, MayHaveAnExtentOfTheirOwn) {
  const Kokkos::View<int**, Right, Kokkos::HostSpace> right("right", 2, 3);
  const Kokkos::View<int***, Right, Kokkos::HostSpace> rights("rights", ranks(), 2, 3);
  const Kokkos::View<int**, Left, Kokkos::HostSpace> left("left", 2, 3);
  const Kokkos::View<int***, Left, Kokkos::HostSpace> lefts("lefts", 2, 3, ranks());
  const Kokkos::View<int*, Right, Kokkos::HostSpace> row("row", 3);
  const Kokkos::View<int**, Left, Kokkos::HostSpace> rows(
      "rows", 3, ranks());  // one dimension fits either layout
  number(right);
  number(left);
  for (std::size_t i = 0; i < 3; ++i) row(i) = left(1, i);
  kokkos::all_gather(comm(), right, rights);
  kokkos::all_gather(comm(), left, lefts);
  kokkos::all_gather(comm(), row, rows);
  for (std::size_t r = 0; r < ranks(); ++r)
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 3; ++j) {
        const int expected = static_cast<int>(100 * r + 10 * i + j);
        EXPECT_EQ(rights(r, i, j), expected);
        EXPECT_EQ(lefts(i, j, r), expected);
        if (i == 1) {
          EXPECT_EQ(rows(j, r), expected);
        }
      }
}

// In gather and scatter, only the root has a view with its own block in it.
template <class Layout>
void check_in_place_at_the_root() {
  const auto many = make<double, 2, Layout>("many", ranks());
  const auto part_of = [&] {
    const std::size_t slow = std::is_same_v<Layout, Left> ? 1 : 0,
                      extent = many.extent(slow) / ranks();
    const std::pair<std::size_t, std::size_t> mine(rank() * extent, (rank() + 1) * extent);
    if constexpr (std::is_same_v<Layout, Left>) return Kokkos::subview(many, Kokkos::ALL, mine);
    else return Kokkos::subview(many, mine, Kokkos::ALL);
  };
  const auto part = part_of();
  const std::size_t block = part.size();
  fill(many);
  kokkos::gather(comm(), part, many, 0);
  expect(many, "gather",
         [&](std::size_t i) { return element(rank() == 0 ? i / block : rank(), i); });
  fill(many);
  kokkos::scatter(comm(), many, part, 0);
  expect(many, "scatter",
         [&](std::size_t i) { return element(i / block == rank() ? 0 : rank(), i); });
}

TEST(Blocks, OfGatherAndScatterLieInPlaceAtTheRoot) {
  check_in_place_at_the_root<Left>();
  check_in_place_at_the_root<Right>();
}

TEST(Views, StridesOfALayoutWillDo) {
  const Kokkos::View<int**, Left, Kokkos::HostSpace> left("left", 2, 3);
  const Kokkos::View<int**, Right, Kokkos::HostSpace> right("right", 2, 3);
  const Kokkos::View<int**, Kokkos::LayoutStride, Kokkos::HostSpace> like_left = left,
                                                                     like_right = right;
  number(left);
  number(right);
  kokkos::all_reduce(comm(), like_right, ReduceOp::max);
  kokkos::all_reduce(comm(), left, like_left, ReduceOp::max);
  const int top = static_cast<int>(100 * (ranks() - 1));
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      EXPECT_EQ(right(i, j), top + 10 * i + j);
      EXPECT_EQ(left(i, j), top + 10 * i + j);
    }
}

TEST(Views, ContiguousSubviewsWillDo) {
  const Kokkos::View<int**, Right, Kokkos::HostSpace> all("all", 5, 4);
  fill(all);
  kokkos::all_reduce(comm(), Kokkos::subview(all, 2, Kokkos::ALL), ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(all, std::make_pair(3, 5), Kokkos::ALL),
                     ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(all, 0, 1), ReduceOp::sum);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 4; ++j) expect_sum_or_own(i >= 2 || (i == 0 && j == 1), all, i, j);
}

// An extent of 1 has a stride, but makes no step.
TEST(Views, OneRowOrColumnOfASlabIsContiguous) {
  const Kokkos::View<int**, Right, Kokkos::HostSpace> right("right", 10, 8);
  const Kokkos::View<int**, Left, Kokkos::HostSpace> left("left", 8, 10);
  const Kokkos::View<int***, Right, Kokkos::HostSpace> deep("deep", 3, 10, 8);
  fill(right);
  fill(left);
  fill(deep);
  const std::pair<int, int> one(0, 1), some(1, 7), none(4, 4);
  const auto row = Kokkos::subview(right, one, some);
  kokkos::all_reduce(comm(), row, ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(left, some, one), ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(deep, one, std::make_pair(2, 3), some), ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(right, none, some), ReduceOp::sum);
  kokkos::all_reduce(comm(), Kokkos::subview(right, some, none), ReduceOp::sum);
  const Kokkos::View<int**, Right, Kokkos::HostSpace> dst("dst", 1, 6);
  kokkos::all_reduce(comm(), row, dst, ReduceOp::max);
  for (int i = 0; i < 10; ++i)
    for (int j = 0; j < 8; ++j) {
      const bool within = j >= 1 && j < 7;
      expect_sum_or_own(within && i == 0, right, i, j);
      expect_sum_or_own(within && i == 0, left, j, i);
      for (int k = 0; k < 3; ++k) expect_sum_or_own(within && k == 0 && i == 2, deep, k, i, j);
      if (within && i == 0) {
        EXPECT_EQ(dst(0, j - 1), right(0, j)) << j;
      }
    }
}

TEST(Views, AnyOrderOfExtentsIsContiguous) {
  const Kokkos::View<int*, Kokkos::HostSpace> memory("memory", 25);
  const Kokkos::View<int***, Kokkos::LayoutStride, Kokkos::HostSpace> view(
      memory.data(), Kokkos::LayoutStride(2, 12, 3, 1, 4, 3));
  fill(memory);
  kokkos::all_reduce(comm(), view, ReduceOp::sum);
  for (std::size_t i = 0; i < 25; ++i) expect_sum_or_own(i < 24, memory, i);
}

TEST(Views, AFixedExtentWillDo) {
  const Kokkos::View<double* [3], Right, Kokkos::HostSpace> view("view", 2);
  fill(view);
  kokkos::all_reduce(comm(), view, ReduceOp::sum);
  expect(view, "all_reduce", sum);
}

TEST(Views, MayBeEmpty) {
  const Kokkos::View<double**, Left, Kokkos::HostSpace> none("none", 0, 3 * ranks()),
      other("other", 0, 3 * ranks());
  kokkos::all_reduce(comm(), none, other, ReduceOp::sum);
  kokkos::all_gather(comm(), none);
  kokkos::all_reduce(comm(), Kokkos::View<double*, Kokkos::HostSpace>(), ReduceOp::sum);
}

}  // namespace
}  // namespace plait::test
