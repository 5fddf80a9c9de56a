// The bootstrap of all processes that mpirun has started.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>

#include "plait/bootstrap.hpp"
#include "plait/mpi.hpp"
#include "plait/unique_id.hpp"

namespace plait {

/// Whether the ranks meet by sockets, and use MPI only to hand the id around.
inline bool by_sockets = false;

inline std::unique_ptr<Bootstrap> meet(MPI_Comm comm) {
  if (!by_sockets) return make_mpi_bootstrap(comm);
  int rank = 0, size = 0;
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &size);
  UniqueId id = rank == 0 ? UniqueId::create() : UniqueId{};
  MPI_Bcast(id.bytes.data(), UniqueId::size, MPI_BYTE, 0, comm);
  return make_socket_bootstrap(id, rank, size);
}

inline std::unique_ptr<Bootstrap> make_world(MPI_Comm comm = MPI_COMM_WORLD) {
  auto bootstrap = meet(comm);
  bootstrap->set_timeout(std::chrono::seconds(30));  // a failed test ends in time
  return bootstrap;
}

inline std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace plait
