// The order of collectives and of the kernels on their execution space.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <vector>

#include "values.hpp"

namespace plait::test {
namespace {

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
    for (const auto& view : views) expect(view, "nothing runs before the end", own());
  }
  kokkos::synchronize(exec, comm());
  for (const auto& view : views) expect(view, "all_reduce in a group", sum);
}

}  // namespace
}  // namespace plait::test
