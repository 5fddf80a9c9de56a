// A small job within plait-info, so that its communicator has statistics to show.
#pragma once
#include "backends/backend.hpp"
#include "plait/statistics.hpp"

namespace plait::info {

/// What rank 0 of `ranks` ranks of this process has counted after all-reduces alone, in a group of
/// a few, in a group of many, and in a captured group of many. Throws Error(unsupported) if the
/// target has not as many devices.
Statistics run_sample(BackendKind backend, int ranks);

}  // namespace plait::info
