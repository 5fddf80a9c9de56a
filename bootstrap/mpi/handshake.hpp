// How the processes of an MPI communicator find each other.
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/mpi/link.hpp"

namespace plait::detail {

struct Meeting {
  MpiLink* link;
  std::vector<int> ranks;  // the communicator's, by their numbers in the link
  std::vector<int> nodes;  // of each rank
  std::uint64_t context;   // for the group's messages
};

/// Collective over `comm`. In each step, the ranks wait for each other for `limit` at most. A rank
/// that can't take part passes the reason as `failure`. All ranks that come throw the same Error:
/// `bootstrap`, which names the missing ranks, or `invalid_argument` if a rank passes a `failure`.
Meeting meet(MPI_Comm comm, std::chrono::nanoseconds limit, const std::string& failure);

}  // namespace plait::detail
