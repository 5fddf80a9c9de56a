// What plait-info learns from ranks: those of a small job within it, which gives its communicator
// statistics to show, and those that a launcher has started.
#pragma once
#include <string>

#include "backends/backend.hpp"
#include "plait/statistics.hpp"

namespace plait::info {

/// Runs all-reduces between `ranks` ranks of this process: single ones, a small group, a large
/// group and a captured large group. Returns the statistics of rank 0. Throws Error(unsupported) if
/// the target has fewer devices than ranks.
Statistics run_sample(BackendKind backend, int ranks);

/// A line for each rank, with its device and, if there are several nodes, its node, its rail and
/// the transport. Empty except on rank 0. All processes that were started together call it.
std::string describe_world();

}  // namespace plait::info
