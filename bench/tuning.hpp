// Turns measurements into rules for the selection (communicator/selection/tuning_file.hpp).
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// A part of a tuning file, for communicators like the measured one: the fastest algorithm at each
/// size, for each collective, kind of memory and placement. If several types or operations were
/// measured, the geometric mean of their times counts. If two neighbouring sizes have different
/// algorithms, the border is where straight lines through their times meet, with both axes
/// logarithmic. An algorithm stays while it is less than 1 % slower than the fastest, so that noise
/// makes no rules.
std::string tuning_rules(const std::vector<Result>& results, const Machine& machine);

}  // namespace plait::bench
