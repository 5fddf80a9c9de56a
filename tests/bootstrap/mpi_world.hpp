// The bootstrap of all processes that mpirun has started.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "plait/bootstrap.hpp"
#include "plait/mpi.hpp"

namespace plait {

inline std::unique_ptr<Bootstrap> make_world(MPI_Comm comm = MPI_COMM_WORLD) {
  auto bootstrap = make_mpi_bootstrap(comm);
  bootstrap->set_timeout(std::chrono::seconds(30));  // a failed test ends in time
  return bootstrap;
}

inline std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace plait
