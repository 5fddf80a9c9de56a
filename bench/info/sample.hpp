// A small job within plait-info, which gives its communicator statistics to show.
#pragma once
#include "backends/backend.hpp"
#include "plait/statistics.hpp"

namespace plait::info {

/// Runs all-reduces between `ranks` ranks of this process: single ones, a small group, a large
/// group and a captured large group. Returns the statistics of rank 0. Throws Error(unsupported) if
/// the target has fewer devices than ranks.
Statistics run_sample(BackendKind backend, int ranks);

}  // namespace plait::info
