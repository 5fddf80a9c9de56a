// Turns measurements into a tuning file (communicator/selection/tuning_file.hpp).
#pragma once
#include <string>
#include <vector>

#include "bench/results.hpp"

namespace plait::bench {

/// A part of a tuning file, for communicators like the measured one. An algorithm stays while it is
/// less than 1 % slower than the fastest, so that noise makes no rules (`measured_rules`).
std::string tuning_rules(const std::vector<Result>& results, const Machine& machine);

}  // namespace plait::bench
