// Collectives and messages on Kokkos views, on the host spaces of whatever Kokkos this is built
// with. To be run by mpirun with any number of ranks.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "world.hpp"

namespace plait::test {
namespace {

// --- values: small integers, exact in every type

template <class T>
T value(unsigned number) {
  if constexpr (std::is_same_v<T, bf16>) {
    return {
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16)};
  } else if constexpr (std::is_same_v<T, f16>) {
    if (number == 0) return {0};
    const auto exponent = static_cast<unsigned>(std::bit_width(number)) - 1;
    return {
        static_cast<std::uint16_t>((exponent + 15) << 10 | ((number << 10 >> exponent) & 1023))};
  } else {
    return static_cast<T>(number);
  }
}
template <class T>
bool is(const T& element, unsigned number) {
  const T expected = value<T>(number);
  if constexpr (std::is_class_v<T>) return element.bits == expected.bits;
  else return element == expected;
}

/// The number that rank `r` has at place `i` of its memory.
unsigned element(std::size_t r, std::size_t i) {
  return static_cast<unsigned>((r * 5 + i * 3) % 13 + 1);
}
unsigned sum(std::size_t i) {
  unsigned total = 0;
  for (std::size_t r = 0; r < ranks(); ++r) total += element(r, i);
  return total;
}

// Numbers a view's elements in the order of memory, whatever its extents.
template <class View>
void fill(const View& view) {
  for (std::size_t i = 0; i < view.size(); ++i)
    view.data()[i] = value<typename View::value_type>(element(rank(), i));
}
template <class View>
void expect(const View& view, const char* what,
            const std::function<unsigned(std::size_t)>& expected) {
  for (std::size_t i = 0; i < view.size(); ++i)
    ASSERT_TRUE(is(view.data()[i], expected(i)))
        << what << ", rank " << rank() << ", element " << i << " of " << view.size();
}

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

// --- every collective, value type, rank of view and layout

template <class T, std::size_t dimensions>
struct DataOf {
  using type = std::remove_pointer_t<typename DataOf<T, dimensions + 1>::type>;
};
template <class T>
struct DataOf<T, 4> {
  using type = T****;
};

/// A view whose slowest extent is `times` that of a block.
template <class T, std::size_t dimensions, class Layout>
auto make(const std::string& label, std::size_t times = 1) {
  Layout layout;
  const std::array<std::size_t, 4> extents{2, 3, 2, 5};
  for (std::size_t i = 0; i < dimensions; ++i) layout.dimension[i] = extents[i];
  if (dimensions > 0) layout.dimension[std::is_same_v<Layout, Left> ? dimensions - 1 : 0] *= times;
  return Kokkos::View<typename DataOf<T, dimensions>::type, Layout, Kokkos::HostSpace>(label,
                                                                                       layout);
}

/// n blocks of one element, for views of rank 0.
template <class T, std::size_t dimensions, class Layout>
auto make_blocks(const std::string& label) {
  if constexpr (dimensions == 0) return Kokkos::View<T*, Layout, Kokkos::HostSpace>(label, ranks());
  else return make<T, dimensions, Layout>(label, ranks());
}

template <class View>
typename View::const_type constant(const View& view) {
  return view;
}

template <class T, std::size_t dimensions, class Layout>
class Collectives {
 public:
  static void check() {
    for (int root = 0; root < comm().size(); ++root) {
      one_block_each(root);
      blocks(root);
    }
    in_place();
    if constexpr (dimensions > 0) all_to_all();
  }

 private:
  static void one_block_each(int root) {
    const auto src = make<T, dimensions, Layout>("src"), dst = make<T, dimensions, Layout>("dst");
    const auto r = static_cast<std::size_t>(root);
    fill(src);
    kokkos::all_reduce(Exec(), comm(), constant(src), dst, ReduceOp::sum);
    expect(dst, "all_reduce", sum);
    kokkos::all_reduce(comm(), src, dst, ReduceOp::min, {.algorithm = "ring"});
    expect(dst, "all_reduce", [](std::size_t i) {
      unsigned least = 99;
      for (std::size_t q = 0; q < ranks(); ++q) least = std::min(least, element(q, i));
      return least;
    });
    kokkos::broadcast(Exec(), comm(), constant(src), dst, root);
    expect(dst, "broadcast", [r](std::size_t i) { return element(r, i); });
    fill(dst);
    kokkos::reduce(Exec(), comm(), constant(src), dst, ReduceOp::sum, root);
    expect(dst, "reduce",
           [root](std::size_t i) { return comm().rank() == root ? sum(i) : element(rank(), i); });
    expect(src, "src", [](std::size_t i) { return element(rank(), i); });
  }

  static void blocks(int root) {
    const auto one = make<T, dimensions, Layout>("one");
    const auto many = make_blocks<T, dimensions, Layout>("many");
    using Many = decltype(many);
    const std::size_t block = one.size();
    const auto r = static_cast<std::size_t>(root);
    const bool is_root = comm().rank() == root;
    const auto gathered = [&](std::size_t i) { return element(i / block, i % block); };
    fill(one);
    kokkos::all_gather(Exec(), comm(), constant(one), many);
    expect(many, "all_gather", gathered);
    Kokkos::deep_copy(many, T{});
    kokkos::gather(comm(), constant(one), is_root ? many : Many(),
                   root);  // what the others pass is not looked at
    expect(many, "gather", [&](std::size_t i) { return is_root ? gathered(i) : 0; });
    fill(many);
    kokkos::reduce_scatter(comm(), constant(many), one, ReduceOp::sum);
    expect(one, "reduce_scatter", [&](std::size_t i) { return sum(rank() * block + i); });
    kokkos::scatter(Exec(), comm(), constant(is_root ? many : Many()), one, root);
    expect(one, "scatter", [&](std::size_t i) { return element(r, rank() * block + i); });
    expect(many, "src", [](std::size_t i) { return element(rank(), i); });
  }

  static void all_to_all() {
    const auto src = make<T, dimensions, Layout>("src", ranks()),
               dst = make<T, dimensions, Layout>("dst", ranks());
    const std::size_t block = src.size() / ranks();
    const auto expected = [block](std::size_t i) {
      return element(i / block, rank() * block + i % block);
    };
    fill(src);
    kokkos::all_to_all(Exec(), comm(), constant(src), dst);
    expect(dst, "all_to_all", expected);
    expect(src, "src", [](std::size_t i) { return element(rank(), i); });
    kokkos::all_to_all(comm(), src);
    expect(src, "all_to_all in place", expected);
  }

  static void in_place() {
    const auto one = make<T, dimensions, Layout>("one");
    const auto many = make_blocks<T, dimensions, Layout>("many");
    const std::size_t block = one.size();
    fill(one);
    kokkos::all_reduce(Exec(), comm(), one, ReduceOp::sum);
    expect(one, "all_reduce in place", sum);
    fill(one);
    kokkos::all_reduce(Exec(), comm(), one, one, ReduceOp::sum);
    expect(one, "all_reduce of a view and itself", sum);
    fill(one);
    kokkos::reduce(Exec(), comm(), one, ReduceOp::sum, 0);
    expect(one, "reduce in place",
           [](std::size_t i) { return rank() == 0 ? sum(i) : element(rank(), i); });
    fill(one);
    kokkos::broadcast(comm(), one, comm().size() - 1);
    expect(one, "broadcast in place", [](std::size_t i) { return element(ranks() - 1, i); });
    fill(many);
    kokkos::all_gather(Exec(), comm(), many);
    expect(many, "all_gather in place", [&](std::size_t i) { return element(i / block, i); });
    fill(many);
    kokkos::reduce_scatter(comm(), many, ReduceOp::sum);
    expect(many, "reduce_scatter in place",
           [&](std::size_t i) { return i / block == rank() ? sum(i) : element(rank(), i); });
  }
};

template <class T>
class EveryType : public testing::Test {};
using Types = testing::Types<signed char, unsigned char, char, int, unsigned, long, unsigned long,
                             long long, unsigned long long, float, double, f16, bf16>;
TYPED_TEST_SUITE(EveryType, Types);

TYPED_TEST(EveryType, Works) { Collectives<TypeParam, 1, Right>::check(); }

TEST(EveryShape, Works) {
  Collectives<double, 0, Right>::check();
  Collectives<double, 1, Left>::check();
  Collectives<double, 2, Left>::check();
  Collectives<double, 2, Right>::check();
  Collectives<float, 3, Left>::check();
  Collectives<int, 3, Right>::check();
}

// --- where blocks lie

template <class View>
void number(const View& view) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < view.extent(1); ++j)
      view(i, j) = static_cast<int>(100 * rank() + 10 * i + j);
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

// --- order

TEST(Order, KernelsBeforeAndAfter) {
  const Exec exec;
  constexpr int count = 10000;
  const Kokkos::View<long*, Kokkos::HostSpace> data("data", count);
  long expected = 0;
  for (long round = 0; round < 20; ++round) {
    Kokkos::parallel_for(Kokkos::RangePolicy<Exec>(exec, 0, count),
                         [=](int i) { data(i) += i + round; });
    kokkos::all_reduce(exec, comm(), data, ReduceOp::max);
    kokkos::barrier(exec, comm());
    expected += round;
  }
  exec.fence();
  for (int i = 0; i < count; ++i) ASSERT_EQ(data(i), 20L * i + expected);
}

TEST(Order, TheResultOfAReductionIsAViewOfRank0) {
  const Exec exec;
  const Kokkos::View<double, Kokkos::HostSpace> norm("norm");
  Kokkos::parallel_reduce(
      Kokkos::RangePolicy<Exec>(exec, 0, 100), [=](int i, double& sum) { sum += i; }, norm);
  kokkos::all_reduce(exec, comm(), norm, ReduceOp::sum);
  exec.fence();
  EXPECT_EQ(norm(), 4950.0 * comm().size());
}

TEST(Order, GroupsAreCompleteAfterTheirEnd) {
  const Exec exec;
  std::vector<Kokkos::View<int*, Kokkos::HostSpace>> views;
  for (int i = 0; i < 10; ++i) views.emplace_back("view " + std::to_string(i), 50);
  for (const auto& view : views) fill(view);
  {
    const Group group;
    for (const auto& view : views) kokkos::all_reduce(exec, comm(), view, ReduceOp::sum);
    for (const auto& view : views)
      expect(view, "nothing runs before the end", [](std::size_t i) { return element(rank(), i); });
  }
  kokkos::synchronize(exec, comm());
  for (const auto& view : views) expect(view, "all_reduce in a group", sum);
}

// --- messages

template <class T, std::size_t dimensions, class Layout>
void check_ring_shift() {
  const auto src = make<T, dimensions, Layout>("src"), dst = make<T, dimensions, Layout>("dst");
  const auto expected = [](std::size_t i) {
    return element(static_cast<std::size_t>(previous()), i);
  };
  fill(src);
  kokkos::send_recv(Exec(), comm(), constant(src), next(), dst, previous());
  expect(dst, "send_recv", expected);
  Kokkos::deep_copy(dst, T{});
  kokkos::send_recv(comm(), src, next(), dst, previous(), {.algorithm = "pairwise_push"});
  expect(dst, "send_recv by pairwise_push", expected);
  expect(src, "src", [](std::size_t i) { return element(rank(), i); });
}

TYPED_TEST(EveryType, IsSentAround) { check_ring_shift<TypeParam, 1, Right>(); }

TEST(EveryShape, IsSentAround) {
  check_ring_shift<double, 0, Right>();
  check_ring_shift<double, 1, Left>();
  check_ring_shift<double, 2, Left>();
  check_ring_shift<double, 2, Right>();
  check_ring_shift<float, 3, Left>();
  check_ring_shift<int, 3, Right>();
}

TEST(Messages, AreElementsAsTheyLieInMemory) {
  const Kokkos::View<int**, Left, Kokkos::HostSpace> matrix("matrix", 2, 3);
  const Kokkos::View<int**, Kokkos::LayoutStride, Kokkos::HostSpace> like_left = matrix;
  const Kokkos::View<int*, Right, Kokkos::HostSpace> vector("vector", 6);
  number(matrix);
  kokkos::send_recv(comm(), like_left, next(), vector, previous());
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      EXPECT_EQ(vector(2 * j + i), 100 * previous() + 10 * i + j) << i << ", " << j;
}

TEST(Messages, PeersAndCountsMayDiffer) {
  const auto length = [](int to) { return 3 + 4 * static_cast<std::size_t>(to); };
  const Kokkos::View<long*, Kokkos::HostSpace> src("src", length(next())),
      dst("dst", length(comm().rank()));
  fill(src);
  kokkos::send_recv(comm(), src, next(), dst, previous());
  expect(dst, "send_recv",
         [](std::size_t i) { return element(static_cast<std::size_t>(previous()), i); });
}

/// Kernels on both sides: what one writes is sent, and what was received the next one reads.
TEST(Messages, PingPongBetweenEvenAndOddRanks) {
  const Exec exec;
  const int peer = comm().rank() ^ 1;
  if (peer >= comm().size()) return;  // the last of an odd number has none
  constexpr int count = 30000;
  constexpr long rounds = 10;
  const Kokkos::View<long*, Kokkos::HostSpace> ball("ball", count);
  const auto hit = [&] {
    Kokkos::parallel_for(Kokkos::RangePolicy<Exec>(exec, 0, count),
                         [=](int i) { ball(i) += i + 1; });
  };
  for (long round = 0; round < rounds; ++round) {
    if (rank() % 2 == 0) {
      hit();
      kokkos::send(exec, comm(), constant(ball), peer);
      Kokkos::deep_copy(ball, -1);
      kokkos::recv(exec, comm(), ball, peer);
    } else {
      kokkos::recv(comm(), ball, peer);
      hit();
      kokkos::send(comm(), ball, peer);
    }
  }
  exec.fence();
  for (int i = 0; i < count; ++i) ASSERT_EQ(ball(i), 2 * rounds * (i + 1)) << i;
}

/// To and from every rank, the own one too.
TEST(Messages, OwnMessagesInAGroup) {
  const Exec exec;
  std::vector<Kokkos::View<float*, Kokkos::HostSpace>> sent, received;
  for (std::size_t peer = 0; peer < ranks(); ++peer) {
    sent.emplace_back("for " + std::to_string(peer), 20 + peer);
    received.emplace_back("from " + std::to_string(peer), 20 + rank());
    for (std::size_t i = 0; i < sent[peer].size(); ++i)
      sent[peer](i) = static_cast<float>(element(rank(), i + 7 * peer));
  }
  {
    const Group group;
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      kokkos::send(exec, comm(), sent[peer], static_cast<int>(peer));
      kokkos::recv(exec, comm(), received[peer], static_cast<int>(peer));
    }
    for (const auto& view : received) EXPECT_EQ(view(19), 0.0f) << "nothing runs before the end";
  }
  kokkos::synchronize(exec, comm());
  for (std::size_t peer = 0; peer < ranks(); ++peer)
    expect(received[peer], "recv", [peer](std::size_t i) { return element(peer, i + 7 * rank()); });
}

TEST(Messages, OfNoElementsAreNotSent) {
  const Kokkos::View<double**, Left, Kokkos::HostSpace> none("none", 0, 3);
  kokkos::send(comm(), none, next());
  kokkos::recv(comm(), Kokkos::View<double*, Kokkos::HostSpace>(), previous());
  kokkos::send_recv(comm(), none, next(), none, previous());
}

/// The number of elements that rank `a` sends to `b`: none for some pairs.
std::size_t uneven(std::size_t a, std::size_t b) { return (3 * a + 5 * b) % 4 * 11; }

TEST(Messages, OfAllToAllVMayBeUneven) {
  const Displaced sent([](std::size_t peer) { return uneven(rank(), peer); });
  const Displaced received([](std::size_t peer) { return uneven(peer, rank()); });
  const Kokkos::View<double*, Right, Kokkos::HostSpace> src("src", sent.end),
      dst("dst", received.end + 1);
  fill(src);
  const auto check = [&](const char* what) {
    std::vector<unsigned> expected(dst.size());  // 0 between the blocks, and behind
    for (std::size_t peer = 0; peer < ranks(); ++peer) {
      const Displaced of_peer([peer](std::size_t to) { return uneven(peer, to); });
      for (std::size_t i = 0; i < received.counts[peer]; ++i)
        expected[received.displacements[peer] + i] =
            element(peer, of_peer.displacements[rank()] + i);
    }
    expect(dst, what, [&](std::size_t i) { return expected[i]; });
    Kokkos::deep_copy(dst, 0.0);
  };
  kokkos::all_to_all_v(Exec(), comm(), constant(src), sent.blocks(), dst, received.blocks());
  check("all_to_all_v");
  {
    const Group group;
    Displaced passed = sent;
    kokkos::all_to_all_v(comm(), src, {passed.counts, passed.displacements}, dst,
                         received.blocks());
    passed.counts.assign(ranks(), 999);  // was read
  }
  kokkos::synchronize(Exec(), comm());
  check("all_to_all_v in a group");
  expect(src, "src", [](std::size_t i) { return element(rank(), i); });
}

// --- symmetric memory

TEST(SymmetricBuffer, ReceivesMessagesStraight) {
  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  const Kokkos::View<float*, Kokkos::HostSpace> src("src", 60);
  const auto dst = buffer.view<float*>(60);
  fill(src);
  kokkos::send_recv(comm(), src, next(), dst, previous(),
                    {.algorithm = "pairwise_put", .symmetric = true});
  expect(dst, "send_recv by pairwise_put",
         [](std::size_t i) { return element(static_cast<std::size_t>(previous()), i); });
}

TEST(SymmetricBuffer, HasViewsThatNeedNoCopies) {
  kokkos::SymmetricBuffer<float, Kokkos::HostSpace> buffer(comm(), 60);
  const auto view = buffer.view();
  ASSERT_EQ(view.size(), 60u);
  EXPECT_EQ(view.data(), buffer.data());
  EXPECT_TRUE(comm().is_symmetric(view.data(), view.size() * sizeof(float)));
  for (std::size_t i = 0; i < 60; ++i) EXPECT_EQ(view(i), 0.0f);
  const auto matrix = buffer.view<float**>(12, 5);
  const auto left = buffer.view<float* [5], Left>(6);
  EXPECT_EQ(&matrix(1, 0), buffer.data() + 5);
  EXPECT_EQ(&left(0, 1), buffer.data() + 6);
  Kokkos::deep_copy(matrix, 2.0f);
  kokkos::all_reduce(comm(), matrix, ReduceOp::sum, {.algorithm = "twoshot"});
  EXPECT_EQ(matrix(11, 4), 2.0f * static_cast<float>(comm().size()));

  const kokkos::SymmetricBuffer<float, Kokkos::HostSpace> moved = std::move(buffer);
  EXPECT_EQ(moved.data(), view.data());
  EXPECT_EQ(buffer.data(), nullptr);  // NOLINT(bugprone-use-after-move): it is empty then
  EXPECT_EQ(buffer.size(), 0u);       // NOLINT(bugprone-use-after-move)
  static_assert(!std::is_copy_constructible_v<kokkos::SymmetricBuffer<float>>);
}

/// Like a GPU's execution space whose default memory is managed: Kokkos can be built so.
struct WithManagedMemory {
  struct Managed {};
  using memory_space = Managed;
  CUstream_st* cuda_stream() const { return nullptr; }
};
}  // namespace
}  // namespace plait::test
template <>
struct Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                                  plait::test::WithManagedMemory::Managed> {
  enum : bool { accessible = true };
};
namespace plait::test {
namespace {
static_assert(std::is_same_v<kokkos::detail::symmetric_memory_space<Exec>, Exec::memory_space>);
static_assert(
    std::is_same_v<kokkos::detail::symmetric_memory_space<WithManagedMemory>, Kokkos::CudaSpace>);

// --- data types

static_assert(kokkos::data_type_of<long> == DataType::i64 &&
              kokkos::data_type_of<long long> == DataType::i64);
static_assert(kokkos::data_type_of<unsigned long long> == DataType::u64 &&
              kokkos::data_type_of<unsigned> == DataType::u32);
static_assert(kokkos::data_type_of<char> == (std::is_signed_v<char> ? DataType::i8 : DataType::u8));
static_assert(kokkos::data_type_of<f8e5m2> == DataType::f8e5m2 &&
              kokkos::data_type_of<bf16> == DataType::bf16);
static_assert(!kokkos::has_data_type<short> && !kokkos::has_data_type<bool> &&
              !kokkos::has_data_type<wchar_t>);
static_assert(!kokkos::has_data_type<Kokkos::complex<double>> && !kokkos::has_data_type<int*>);
static_assert(kokkos::data_type_of<Kokkos::Experimental::half_t> ==
              (sizeof(Kokkos::Experimental::half_t) == 2 ? DataType::f16 : DataType::f32));

/// Ranks other than 0 print failures alone.
class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %zu: %s:%d: %s\n", rank(), result.file_name(),
                   result.line_number(), result.message());
  }
};

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  if (plait::test::rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new plait::test::Failures);
  }
  return RUN_ALL_TESTS();
}
