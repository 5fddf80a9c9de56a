// The same as litmus_test with ranks that are processes, which have their own mappings of the
// shared memory. To be run by mpirun with at least two ranks.
#include <mpi.h>

#include <memory>

#include "plait/mpi.hpp"
#include "support/run_tests.hpp"
#include "unit/litmus/fixture.hpp"

namespace plait::test {
namespace {

std::unique_ptr<Communicator> world;  // made once

INSTANTIATE_TEST_SUITE_P(All, Litmus, Litmus::all(), Litmus::name);

TEST_P(Litmus, NothingIsTornEarlyOrStale) { check(*world); }

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  plait::test::world = std::make_unique<plait::Communicator>(
      plait::make_communicator(MPI_COMM_WORLD, plait::test::test_options()));
  const int status = plait::test::run_tests(plait::test::world->rank());
  plait::test::world.reset();
  return status;
}
