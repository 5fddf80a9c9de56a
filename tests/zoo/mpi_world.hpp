// The communicator of all processes that mpirun has started, for tests of all of them.
#pragma once
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <string_view>

#include "plait/mpi.hpp"
#include "support/device_array.hpp"
#include "support/ranks.hpp"
#include "support/run_tests.hpp"

namespace plait::test {

/// The world's communicator and its memory; made once.
struct World {
  Communicator comm = make_communicator(MPI_COMM_WORLD, test_options());
  Arena arena{comm};

  static std::unique_ptr<World>& instance() {
    static std::unique_ptr<World> world;
    return world;
  }
};

/// With --caller-initializes-mpi, MPI is initialised by the program and not by the library.
inline int run_tests_in_world(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const bool caller = argc > 1 && std::string_view(argv[1]) == "--caller-initializes-mpi";
  if (caller) MPI_Init(&argc, &argv);
  World::instance() = std::make_unique<World>();
  const int status = run_tests(World::instance()->comm.rank());
  World::instance().reset();
  if (caller) MPI_Finalize();
  return status;
}

}  // namespace plait::test
