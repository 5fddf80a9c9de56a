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

#include "values.hpp"

namespace plait::test {
namespace {

/// n blocks of one element, for views of rank 0.
template <class T, std::size_t dimensions, class Layout>
auto make_blocks(const std::string& label) {
  if constexpr (dimensions == 0) return Kokkos::View<T*, Layout, Kokkos::HostSpace>(label, ranks());
  else return make<T, dimensions, Layout>(label, ranks());
}

// Not in the template, which would compile them for each type and shape.
unsigned least(std::size_t i) {
  unsigned result = element(0, i);
  for (std::size_t r = 1; r < ranks(); ++r) result = std::min(result, element(r, i));
  return result;
}
unsigned greatest(std::size_t i) {
  unsigned result = 0;
  for (std::size_t r = 0; r < ranks(); ++r) result = std::max(result, element(r, i));
  return result;
}
unsigned nothing(std::size_t) { return 0; }
Expected sums(std::size_t begin) {
  return [=](std::size_t i) { return sum(begin + i); };
}
/// One block of each rank, from `begin` in its memory.
Expected gathered(std::size_t block, std::size_t begin = 0) {
  return [=](std::size_t i) { return element(i / block, begin + i % block); };
}
Expected gathered_in_place(std::size_t block) {
  return [=](std::size_t i) { return element(i / block, i); };
}
Expected reduced_in_place(std::size_t block) {
  return [=](std::size_t i) { return i / block == rank() ? sum(i) : element(rank(), i); };
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
    fill(src);
    kokkos::all_reduce(Exec(), comm(), constant(src), dst, ReduceOp::sum);
    expect(dst, "all_reduce", sum);
    if constexpr (!ComplexNumber<T>) {
      // Few algorithms reduce 16-bit integers.
      const char* algorithm = sizeof(T) == 2 && std::is_integral_v<T> ? "stream" : "ring";
      kokkos::all_reduce(comm(), src, dst, ReduceOp::min, {.algorithm = algorithm});
      expect(dst, "all_reduce", least);
    }
    kokkos::broadcast(Exec(), comm(), constant(src), dst, root);
    expect(dst, "broadcast", of(static_cast<std::size_t>(root)));
    fill(dst);
    kokkos::reduce(Exec(), comm(), constant(src), dst, ReduceOp::sum, root);
    expect(dst, "reduce", comm().rank() == root ? sum : own());
    kokkos::scan(Exec(), comm(), constant(src), dst, ReduceOp::sum);
    expect(dst, "scan", scanned);
    fill(dst);
    kokkos::exscan(comm(), src, dst, ReduceOp::sum);
    expect(dst, "exscan", scanned_before);
    expect(src, "src", own());
  }

  static unsigned scanned(std::size_t i) { return sum_of_first(rank() + 1, i); }
  /// Rank 0 keeps what it has.
  static unsigned scanned_before(std::size_t i) {
    return rank() == 0 ? element(0, i) : sum_of_first(rank(), i);
  }

  static void blocks(int root) {
    const auto one = make<T, dimensions, Layout>("one");
    const auto many = make_blocks<T, dimensions, Layout>("many");
    using Many = decltype(many);
    const std::size_t block = one.size();
    const bool is_root = comm().rank() == root;
    fill(one);
    kokkos::all_gather(Exec(), comm(), constant(one), many);
    expect(many, "all_gather", gathered(block));
    Kokkos::deep_copy(many, T{});
    kokkos::gather(comm(), constant(one), is_root ? many : Many(),
                   root);  // what the others pass is not looked at
    expect(many, "gather", is_root ? gathered(block) : nothing);
    fill(many);
    kokkos::reduce_scatter(comm(), constant(many), one, ReduceOp::sum);
    expect(one, "reduce_scatter", sums(rank() * block));
    kokkos::scatter(Exec(), comm(), constant(is_root ? many : Many()), one, root);
    expect(one, "scatter", of(static_cast<std::size_t>(root), rank() * block));
    expect(many, "src", own());
  }

  static void all_to_all() {
    const auto src = make<T, dimensions, Layout>("src", ranks()),
               dst = make<T, dimensions, Layout>("dst", ranks());
    const std::size_t block = src.size() / ranks();
    const Expected expected = gathered(block, rank() * block);
    fill(src);
    kokkos::all_to_all(Exec(), comm(), constant(src), dst);
    expect(dst, "all_to_all", expected);
    expect(src, "src", own());
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
    expect(one, "reduce in place", rank() == 0 ? sum : own());
    fill(one);
    kokkos::broadcast(comm(), one, comm().size() - 1);
    expect(one, "broadcast in place", of(ranks() - 1));
    fill(one);
    kokkos::scan(comm(), one, ReduceOp::sum);
    expect(one, "scan in place", scanned);
    fill(one);
    kokkos::exscan(Exec(), comm(), one, ReduceOp::sum);
    expect(one, "exscan in place", scanned_before);
    fill(many);
    kokkos::all_gather(Exec(), comm(), many);
    expect(many, "all_gather in place", gathered_in_place(block));
    fill(many);
    kokkos::reduce_scatter(comm(), many, ReduceOp::sum);
    expect(many, "reduce_scatter in place", reduced_in_place(block));
  }
};

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

template <class T>
class EveryType : public testing::Test {};
using Types = testing::Types<signed char, unsigned char, char, short, unsigned short, int, unsigned,
                             long, unsigned long, long long, unsigned long long, float, double, f16,
                             bf16, std::complex<float>, Kokkos::complex<double>>;
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

TYPED_TEST(EveryType, IsSentAround) { check_ring_shift<TypeParam, 1, Right>(); }

TEST(EveryShape, IsSentAround) {
  check_ring_shift<double, 0, Right>();
  check_ring_shift<double, 1, Left>();
  check_ring_shift<double, 2, Left>();
  check_ring_shift<double, 2, Right>();
  check_ring_shift<float, 3, Left>();
  check_ring_shift<int, 3, Right>();
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
