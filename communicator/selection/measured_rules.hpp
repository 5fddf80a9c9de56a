// Turns measured times into rules for the selection.
#pragma once
#include <span>
#include <string>

#include "plait/call.hpp"

namespace plait {

/// The time that one algorithm took for a call.
struct MeasuredCall {
  Call call;
  // Also where `Call::in_place` is false: in ordinary memory, and in calls with a root.
  bool in_place = false;
  std::string algorithm;
  double microseconds = 0;
};

/// A line of rules for each collective: the fastest algorithm at each size, for each kind of memory
/// and placement. If several types or operations were measured, the geometric mean of their times
/// counts, and so it does for placements that rules can't tell apart. If two neighbouring sizes
/// have different algorithms, the border is where straight lines through their times meet, with
/// both axes logarithmic. `noise`: an algorithm keeps its place while it takes at most this part
/// longer than the fastest, 0.01 for 1 %.
std::string measured_rules(std::span<const MeasuredCall> calls, double noise);

}  // namespace plait
