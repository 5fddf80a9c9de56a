// The algorithms that compete for calls of one kind and size.
#pragma once
#include <algorithm>
#include <vector>

#include "algorithms/contract/algorithm.hpp"

namespace plait {

/// An algorithm that takes less than this times the fastest counts as equally fast.
constexpr double close_factor = 1.15;
struct TimedCandidate {
  const Algorithm* algorithm;
  unsigned shape = 0;  // its number
  double microseconds = 0;
  bool is_of(const TimedCandidate& other) const {
    return algorithm == other.algorithm && shape == other.shape;
  }
};
using TimedCandidates = std::vector<TimedCandidate>;

inline const TimedCandidate& fastest(const TimedCandidates& those) {
  return *std::min_element(those.begin(), those.end(), [](const auto& a, const auto& b) {
    return a.microseconds < b.microseconds;
  });
}

/// Whether two sizes have different fastest algorithms, or one has another that is as fast.
inline bool is_close(const TimedCandidates& low, const TimedCandidates& high) {
  const Algorithm* const first = fastest(low).algorithm;
  if (first != fastest(high).algorithm) return true;
  for (const TimedCandidates* side : {&low, &high})
    for (const TimedCandidate& c : *side)
      if (c.algorithm != first && c.microseconds < close_factor * fastest(*side).microseconds)
        return true;
  return false;
}

/// Of both times of each candidate, the less.
inline void take_less(TimedCandidates& those, const TimedCandidates& again) {
  for (const TimedCandidate& c : again)
    for (TimedCandidate& known : those)
      if (known.is_of(c)) known.microseconds = std::min(known.microseconds, c.microseconds);
}

}  // namespace plait
