// How the ranks of one node hand a unique id around, if all they share is the name of their job.
#pragma once
#include <chrono>
#include <string>

#include "plait/unique_id.hpp"

namespace plait::detail {

/// Rank 0 makes an id whose address is the loopback device's. All ranks get it.
///
/// The id goes through an abstract Unix socket, whose name is made of `job` and the user. The
/// system tells each side the other's user, so no other user can read the id or give a wrong one,
/// and nothing is left behind. Throws Error(bootstrap), which names the missing ranks, if not all
/// come within `limit`.
UniqueId share_id(const std::string& job, int rank, int size, std::chrono::nanoseconds limit);

}  // namespace plait::detail
