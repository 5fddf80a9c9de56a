// The ranks that a launcher has started, as their communicator sees them.
#pragma once
#include <string>

namespace plait::info {

/// A line for each rank, with its device and, if there are several nodes, its node, its rail and
/// the transport. Empty except on rank 0. All processes that were started together call it.
std::string describe_world();

}  // namespace plait::info
