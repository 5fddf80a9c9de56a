// What a run would measure.
#pragma once
#include <string>

#include "bench/options.hpp"

namespace plait::bench {

/// `{"backend": ..., "bytes": [...], "runs": [{"collective", "type", "at_most"}, ...]}`, in a line:
/// the sizes, and for each collective and type the number of measurements, without those that no
/// algorithm or peer turns out to serve. Makes no communicator.
std::string plan_of(const Options& options);

}  // namespace plait::bench
