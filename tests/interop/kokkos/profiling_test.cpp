// The regions that profilers see of calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <string>
#include <vector>

#include "errors.hpp"

namespace plait::test {
namespace {

std::vector<std::string> regions;
int depth = 0;

TEST(Profiling, RegionsSayWhatIsCalled) {
  const Matrix a("a", 4, 3), b("b", 4, 3);
  Kokkos::Tools::Experimental::set_push_region_callback([](const char* name) {
    regions.emplace_back(name);
    ++depth;
  });
  Kokkos::Tools::Experimental::set_pop_region_callback([] { --depth; });
  regions.clear();
  kokkos::all_reduce(comm(), a, b, ReduceOp::sum);
  kokkos::all_gather(comm(),
                     Kokkos::View<bf16**, Right, Kokkos::HostSpace>("c", 1024 * ranks(), 1));
  kokkos::barrier(Exec(), comm());
  EXPECT_THAT(
      error_of([&] { kokkos::all_reduce(comm(), a, ReduceOp::sum, {.algorithm = "nonesuch"}); }),
      HasSubstr("nonesuch"));
  {
    const Group group;
    kokkos::send(comm(), Kokkos::subview(a, 0, Kokkos::ALL), comm().rank());
    kokkos::recv(comm(), Kokkos::subview(b, 0, Kokkos::ALL), comm().rank());
  }
  kokkos::synchronize(Exec(), comm());
  kokkos::send_recv(comm(), a, next(), b, previous());
  const std::vector<std::size_t> counts(ranks(), 2), same(ranks());
  const Displaced received([](std::size_t) { return 2; });
  kokkos::all_to_all_v(comm(), Vector("for all", 2), {counts, same}, Vector("of all", received.end),
                       received.blocks());
  EXPECT_EQ(depth, 0);
  Kokkos::Tools::Experimental::set_push_region_callback(nullptr);
  Kokkos::Tools::Experimental::set_pop_region_callback(nullptr);
  const std::string all = std::to_string(2 * ranks());
  EXPECT_THAT(regions, testing::ElementsAre("plait::all_reduce [f64, 12]",
                                            "plait::all_gather [bf16, 1024]", "plait::barrier",
                                            "plait::all_reduce [f64, 12]", "plait::send [f64, 3]",
                                            "plait::recv [f64, 3]", "plait::send_recv [f64, 12]",
                                            "plait::all_to_all_v [f64, " + all + "]"));
}

}  // namespace
}  // namespace plait::test
