// Measurements as rules for the selection (communicator/selection/tuning_file.hpp).
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// A part of a tuning file, for communicators like the one that was measured: for each collective
/// and kind of memory and place the fastest of the algorithms at each size, where several types or
/// operations were measured by the geometric mean of their times. Between two sizes with different
/// ones, the border is where straight lines through their times meet, both on logarithmic scales.
/// An algorithm stays while it is less than 1 % slower than the fastest, so that noise makes no
/// rules.
std::string tuning_rules(const std::vector<Result>& results, const Machine& machine);

}  // namespace plait::bench
