// What a run would measure.
#pragma once
#include <string>

#include "bench/options.hpp"

namespace plait::bench {

/// `{"backend", "bytes": [...], "iterations", "warm_up", "repeats", "runs": [{"collective", "type",
/// "at_most"}, ...]}`, in a line: the sizes, how each is timed, and the number of measurements for
/// each collective and type. Fewer are made if calls turn out not to be served. Makes no
/// communicator.
std::string plan_of(const Options& options);

}  // namespace plait::bench
