// Views of bool and of pairs, and the operations that only some value types have. collectives_test
// has numbers of each type.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <complex>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>

#include "values.hpp"

namespace plait::test {
namespace {

constexpr std::size_t count = 300;

template <class T>
using Line = Kokkos::View<T*, Kokkos::HostSpace>;

/// A view with `of(rank, i)` at place i.
template <class T, class Of>
Line<T> filled(const Of& of) {
  const Line<T> line("line", count);
  for (std::size_t i = 0; i < count; ++i) line(i) = of(rank(), i);
  return line;
}

/// `of(0, i)`, `of(1, i)` and so on, combined.
template <class Of, class Combine>
auto fold(const Of& of, std::size_t i, const Combine& combine) {
  auto result = of(0, i);
  for (std::size_t r = 1; r < ranks(); ++r) result = combine(result, of(r, i));
  return result;
}

/// Compares with a loop over the ranks.
template <class T, class Of, class Combine>
void check_all_reduce(ReduceOp op, const Of& of, const Combine& combine) {
  const Line<T> src = filled<T>(of), dst("dst", count);
  kokkos::all_reduce(Exec(), comm(), constant(src), dst, op);
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(dst(i), fold(of, i, combine)) << name_of(op) << ", element " << i;
}

TEST(ValueTypes, Bool) {
  const auto of = [](std::size_t r, std::size_t i) { return element(r, i) % 3 != 0; };
  check_all_reduce<bool>(ReduceOp::land, of, [](bool a, bool b) { return a && b; });
  check_all_reduce<bool>(ReduceOp::lor, of, [](bool a, bool b) { return a || b; });
  check_all_reduce<bool>(ReduceOp::lxor, of, [](bool a, bool b) { return a != b; });

  const Line<bool> mine = filled<bool>(of), all("all", ranks() * count), last("last", count);
  kokkos::all_gather(comm(), mine, all);
  kokkos::send_recv(comm(), mine, next(), last, previous());
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all(i), of(i / count, i % count)) << "all_gather, element " << i;
  for (std::size_t i = 0; i < count; ++i)
    ASSERT_EQ(last(i), of(static_cast<std::size_t>(previous()), i)) << "send_recv, element " << i;
}

/// Element i of rank r's part of a field with many equal values.
template <class T>
T field(std::size_t r, std::size_t i) {
  return static_cast<T>((r * 7 + i * 5) % 11);
}

/// Where the extreme element of a field over all ranks is. A kernel names any place of those with
/// equal values. Of the ranks' places, which `all_gather` collects, the least must win.
template <class T, template <class, class, class> class Reducer>
void check_location(ReduceOp op, T extreme) {
  using Pair = Kokkos::ValLocScalar<T, int>;
  const bool is_min = op == ReduceOp::minloc;
  const int n = comm().size();
  const Kokkos::View<Pair, Kokkos::HostSpace> mine("mine"), best("best");
  // Higher ranks have lower places, so the first rank does not win by its number.
  const std::size_t own = rank();
  const int last = (n - comm().rank()) * static_cast<int>(count) - 1;
  Kokkos::parallel_reduce(
      Kokkos::RangePolicy<Exec>(0, count),
      [=](const int i, Pair& found) {
        const T value = field<T>(own, static_cast<std::size_t>(i));
        if (is_min ? value >= found.val : value <= found.val) return;
        found.val = value;
        found.loc = last - i;
      },
      Reducer<T, int, Kokkos::HostSpace>(mine));
  Exec().fence();
  const int place = mine().loc;
  const Kokkos::View<Pair*, Kokkos::HostSpace> all("all", ranks());
  kokkos::all_gather(Exec(), comm(), mine, all);
  int least = place;
  for (std::size_t r = 0; r < ranks(); ++r) {
    EXPECT_EQ(all(r).val, extreme);
    least = std::min(least, all(r).loc);
  }
  EXPECT_EQ(all(rank()).loc, place);
  kokkos::all_reduce(Exec(), comm(), mine, best, op);
  EXPECT_EQ(best().val, extreme);
  EXPECT_EQ(best().loc, least);
  EXPECT_EQ(mine().loc, place) << "src has changed";

  // Without ties: each rank has another value.
  mine().val = static_cast<T>((comm().rank() + 1) % n);
  mine().loc = comm().rank() + 100;
  kokkos::all_reduce(comm(), mine, op);
  EXPECT_EQ(mine().val, static_cast<T>(is_min ? 0 : n - 1));
  EXPECT_EQ(mine().loc, 100 + (is_min ? n - 1 : (2 * n - 2) % n));
}
TEST(ValueTypes, Locations) {
  check_location<float, Kokkos::MinLoc>(ReduceOp::minloc, 0);
  check_location<double, Kokkos::MaxLoc>(ReduceOp::maxloc, 10);
  check_location<int, Kokkos::MinLoc>(ReduceOp::minloc, 0);
  check_location<long, Kokkos::MaxLoc>(ReduceOp::maxloc, 10);
}

/// A sum of pairs has no meaning, and so on. Nothing is enqueued then.
template <class T>
void expect_unsupported(ReduceOp op, const std::string& why) {
  const Line<T> view("view", count);
  const auto calls = comm().statistics().calls;
  try {
    kokkos::all_reduce(comm(), view, op);
    ADD_FAILURE() << name_of(op) << " was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.what(), "all_reduce: rank " + std::to_string(rank()) + ": " + why);
  }
  EXPECT_EQ(comm().statistics().calls, calls) << "something was enqueued";
}
TEST(ValueTypes, UnfitOperations) {
  expect_unsupported<bool>(ReduceOp::sum, "sum needs numbers, not bool");
  expect_unsupported<Kokkos::complex<double>>(
      ReduceOp::min, "min needs an integer or floating-point type, not complex_f64");
  expect_unsupported<Kokkos::ValLocScalar<long, int>>(ReduceOp::sum,
                                                      "sum needs numbers, not i64_i32");
}

static_assert(kokkos::data_type_of<bool> == DataType::boolean);
static_assert(kokkos::data_type_of<Kokkos::complex<float>> == DataType::complex_f32 &&
              kokkos::data_type_of<std::complex<double>> == DataType::complex_f64);
template <class T>
using MinLocValue = typename Kokkos::MinLoc<T, int, Kokkos::HostSpace>::value_type;
static_assert(kokkos::data_type_of<MinLocValue<float>> == DataType::f32_i32 &&
              kokkos::data_type_of<MinLocValue<double>> == DataType::f64_i32);
static_assert(kokkos::data_type_of<MinLocValue<int>> == DataType::i32_i32 &&
              kokkos::data_type_of<MinLocValue<long>> == DataType::i64_i32);
static_assert(kokkos::data_type_of<ValueIndex<double>> == DataType::f64_i32);
// Values or indices that no data type has.
static_assert(!kokkos::has_data_type<MinLocValue<short>> &&
              !kokkos::has_data_type<MinLocValue<unsigned>>);
static_assert(!kokkos::has_data_type<Kokkos::ValLocScalar<double, long>> &&
              !kokkos::has_data_type<std::complex<long double>>);

}  // namespace
}  // namespace plait::test
