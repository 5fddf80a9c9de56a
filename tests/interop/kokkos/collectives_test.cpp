// The results of each collective, and of send_recv, for every value type, rank of view and layout.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <complex>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "by_name.hpp"
#include "values.hpp"

namespace plait::test {
namespace {

unsigned greatest(std::size_t i) {
  unsigned result = 0;
  for (std::size_t r = 0; r < ranks(); ++r) result = std::max(result, element(r, i));
  return result;
}
Expected sums(std::size_t begin) {
  return [=](std::size_t i) { return sum(begin + i); };
}

/// What a collective writes to element `i` of this rank's `dst`, or what was there before. A block
/// has `block` elements.
unsigned written(Collective collective, std::size_t root, std::size_t block, std::size_t i) {
  const kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(collective);
  const std::size_t own = blocks.many_sent ? rank() * block : 0;
  if (blocks.root_receives && rank() != root) return element(rank(), i);
  switch (collective) {
    case Collective::scan:
      return sum_of_first(rank() + 1, i);
    case Collective::exscan:  // rank 0 keeps what it has
      return rank() == 0 ? element(0, i) : sum_of_first(rank(), i);
    case Collective::broadcast:
    case Collective::scatter:
      return element(root, own + i);
    case Collective::all_gather:
    case Collective::gather:
    case Collective::all_to_all:
      return element(i / block, own + i % block);
    default:
      return sum(own + i);
  }
}
/// The same for a call in one view.
unsigned written_in_place(Collective collective, std::size_t root, std::size_t block,
                          std::size_t i) {
  if (collective == Collective::all_gather) return element(i / block, i);
  if (collective != Collective::reduce_scatter) return written(collective, root, block, i);
  return i / block == rank() ? sum(i) : element(rank(), i);
}

/// A block, or n blocks. Those of views of rank 0 have one element each.
template <class T, std::size_t dimensions, class Layout, bool many>
auto blocks_of_views(const std::string& label) {
  if constexpr (many && dimensions == 0)
    return Kokkos::View<T*, Layout, Kokkos::HostSpace>(label, ranks());
  else return make<T, dimensions, Layout>(label, many ? ranks() : 1);
}

/// Every collective with every root. What only the root has is not looked at on other ranks.
template <class T, std::size_t dimensions, class Layout>
void check_collectives(bool with_space) {
  for_each_collective([&]<Collective collective>() {
    constexpr kokkos::detail::Blocks blocks = kokkos::detail::blocks_of(collective);
    if constexpr (dimensions > 0 || !(blocks.many_sent && blocks.many_received)) {
      const std::string name(name_of(collective));
      for (std::size_t root = 0; root < ranks(); ++root) {
        const auto src = blocks_of_views<T, dimensions, Layout, blocks.many_sent>("src");
        const auto dst = blocks_of_views<T, dimensions, Layout, blocks.many_received>("dst");
        using Src = decltype(src);
        using Dst = decltype(dst);
        const bool is_root = rank() == root;
        const std::size_t block = src.size() / (blocks.many_sent ? ranks() : 1);
        fill(src);
        fill(dst);
        Functions<collective>::call(
            with_space, static_cast<int>(root),
            constant(blocks.root_sends && !is_root ? std::remove_const_t<Src>() : src),
            blocks.root_receives && !is_root ? std::remove_const_t<Dst>() : dst);
        expect(dst, name.c_str(),
               [&](std::size_t i) { return written(collective, root, block, i); });
        expect(src, "src", own());
        if constexpr (has_form_in_place<collective>()) {
          constexpr bool many = blocks.many_sent || blocks.many_received;
          const auto view = blocks_of_views<T, dimensions, Layout, many>("view");
          fill(view);
          Functions<collective>::call(with_space, static_cast<int>(root), view);
          expect(view, (name + " in place").c_str(),
                 [&](std::size_t i) { return written_in_place(collective, root, block, i); });
        }
      }
    }
  });
}

template <class T, std::size_t dimensions, class Layout>
void check_ring_shift() {
  const auto src = make<T, dimensions, Layout>("src"), dst = make<T, dimensions, Layout>("dst");
  const Expected expected = of(static_cast<std::size_t>(previous()));
  fill(src);
  kokkos::send_recv(Exec(), comm(), constant(src), next(), dst, previous());
  expect(dst, "send_recv", expected);
  Kokkos::deep_copy(dst, T{});
  kokkos::send_recv(comm(), src, next(), dst, previous(), {.algorithm = "pairwise_push"});
  expect(dst, "send_recv by pairwise_push", expected);
  expect(src, "src", own());
}

/// A reduction and a message. Which data type each is, is checked below.
template <class T>
class EveryType : public testing::Test {};
using Types = testing::Types<signed char, unsigned char, char, short, unsigned short, int, unsigned,
                             long, unsigned long, long long, unsigned long long, float, f16, bf16,
                             std::complex<float>, Kokkos::complex<double>>;
TYPED_TEST_SUITE(EveryType, Types);
TYPED_TEST(EveryType, IsReducedAndSentAround) {
  const auto src = make<TypeParam, 1, Right>("src"), dst = make<TypeParam, 1, Right>("dst");
  fill(src);
  kokkos::all_reduce(Exec(), comm(), constant(src), dst, ReduceOp::sum);
  expect(dst, "all_reduce", sum);
  check_ring_shift<TypeParam, 1, Right>();
}

TEST(EveryShape, Works) {
  check_collectives<double, 0, Right>(true);
  check_collectives<double, 1, Left>(false);
  check_collectives<double, 2, Left>(true);
  check_collectives<double, 2, Right>(false);
  check_collectives<float, 3, Left>(false);
  check_collectives<int, 3, Right>(true);
}

TEST(EveryShape, IsSentAround) {
  check_ring_shift<double, 0, Right>();
  check_ring_shift<double, 2, Left>();
  check_ring_shift<float, 3, Left>();
  check_ring_shift<int, 3, Right>();
}

TEST(EveryShape, MayBeBothBuffers) {
  const auto one = make<double, 2, Right>("one");
  fill(one);
  kokkos::all_reduce(Exec(), comm(), one, one, ReduceOp::sum, {.algorithm = "ring"});
  expect(one, "all_reduce of a view and itself", sum);
}

/// A count per rank: 0 for some, or the same for all.
template <class T>
void check_reduce_scatter_v(const std::vector<std::size_t>& counts) {
  using View = Kokkos::View<T*, Right, Kokkos::HostSpace>;
  std::size_t all = 0, begin = 0;
  for (std::size_t r = 0; r < ranks(); ++r) {
    if (r == rank()) begin = all;
    all += counts[r];
  }
  const std::size_t own = counts[rank()];
  const View src("src", all), dst("dst", own), both("both", all);
  const auto in_place = Kokkos::subview(both, std::pair(begin, begin + own));
  const Expected only_own_block = [=](std::size_t i) {
    return i >= begin && i < begin + own ? sum(i) : element(rank(), i);
  };
  fill(src);
  kokkos::reduce_scatter_v(Exec(), comm(), constant(src), counts, dst, ReduceOp::sum);
  expect(dst, "reduce_scatter_v", sums(begin));
  expect(src, "src", plait::test::own());
  fill(both);
  kokkos::reduce_scatter_v(comm(), both, counts, in_place, ReduceOp::sum);
  expect(both, "reduce_scatter_v in place", only_own_block);
  fill(both);
  Kokkos::deep_copy(dst, T{});
  {
    const Group group;
    std::vector<std::size_t> passed = counts;
    kokkos::reduce_scatter_v(Exec(), comm(), src, passed, dst, ReduceOp::max);
    kokkos::reduce_scatter_v(comm(), both, passed, in_place, ReduceOp::sum,
                             {.algorithm = "direct_push"});
    passed.assign(ranks(), 999);  // was read
  }
  kokkos::synchronize(Exec(), comm());
  expect(dst, "maximum by reduce_scatter_v", [=](std::size_t i) { return greatest(begin + i); });
  expect(both, "reduce_scatter_v in place, in a group", only_own_block);
}

TEST(ReduceScatterV, CountsMayDiffer) {
  for (std::size_t round = 0; round < 3; ++round) {
    std::vector<std::size_t> counts;
    for (std::size_t r = 0; r < ranks(); ++r) counts.push_back((2 * r + round) % 3 * 120);
    check_reduce_scatter_v<double>(counts);
    check_reduce_scatter_v<int>(counts);
  }
}

TEST(ReduceScatterV, CountsMayBeEqual) {
  check_reduce_scatter_v<double>(std::vector<std::size_t>(ranks(), 50));
  check_reduce_scatter_v<float>(std::vector<std::size_t>(ranks(), 0));
}

/// Elements are reduced as they lie in memory.
TEST(ReduceScatterV, BlocksMayHaveAnyRank) {
  std::vector<std::size_t> counts(ranks(), 6);
  counts.back() = 1;
  const Kokkos::View<long*, Right, Kokkos::HostSpace> src("src", 6 * (ranks() - 1) + 1);
  fill(src);
  if (rank() + 1 == ranks()) {
    const Kokkos::View<long, Kokkos::HostSpace> dst("dst");
    kokkos::reduce_scatter_v(comm(), src, counts, dst, ReduceOp::sum);
    expect(dst, "reduce_scatter_v to a scalar", sums(6 * rank()));
  } else {
    const Kokkos::View<long**, Left, Kokkos::HostSpace> dst("dst", 2, 3);
    kokkos::reduce_scatter_v(comm(), src, counts, dst, ReduceOp::sum);
    expect(dst, "reduce_scatter_v to a matrix", sums(6 * rank()));
  }
}

static_assert(kokkos::data_type_of<long> == DataType::i64 &&
              kokkos::data_type_of<long long> == DataType::i64);
static_assert(kokkos::data_type_of<unsigned long long> == DataType::u64 &&
              kokkos::data_type_of<unsigned> == DataType::u32);
static_assert(kokkos::data_type_of<char> == (std::is_signed_v<char> ? DataType::i8 : DataType::u8));
static_assert(kokkos::data_type_of<f8e5m2> == DataType::f8e5m2 &&
              kokkos::data_type_of<bf16> == DataType::bf16);
static_assert(kokkos::data_type_of<short> == DataType::i16 &&
              kokkos::data_type_of<unsigned short> == DataType::u16);
static_assert(!kokkos::has_data_type<wchar_t> && !kokkos::has_data_type<int*>);
static_assert(kokkos::data_type_of<Kokkos::Experimental::half_t> ==
              (sizeof(Kokkos::Experimental::half_t) == 2 ? DataType::f16 : DataType::f32));

}  // namespace
}  // namespace plait::test
