// How the processes of an MPI communicator find each other.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/mpi_link.hpp"

namespace plait::detail {

struct Meeting {
  Link* link;
  std::vector<int> ranks;  // of the communicator, in the link
  std::vector<int> nodes;  // of each rank
  std::uint64_t context;   // for the group's messages
};

/// Collective over `comm`; the ranks wait for each other in each of its steps for `limit` at most.
/// Throws the same Error on all ranks that come: `bootstrap`, with the ranks that are missing, or
/// `failure`'s code if one of them passes a `failure`, why it can't take part.
Meeting meet(MPI_Comm comm, std::chrono::nanoseconds limit, const std::string& failure);

}  // namespace plait::detail
