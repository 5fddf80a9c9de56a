// The algorithms that compete for calls of one kind and size, and their times.
#pragma once
#include <algorithm>
#include <chrono>
#include <vector>

#include "communicator/calibration/plan.hpp"
#include "communicator/calibration/stopwatch.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// An algorithm that takes less than this times the fastest counts as equally fast.
constexpr double close_factor = 1.15;
/// An algorithm that may be the fastest between two sizes, or in another shape, takes less than
/// this times the fastest.
constexpr double near_factor = 1.5;
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

/// All functions that time are collective, and their results are the same on all ranks: the
/// geometric mean over the tasks, each with the time of the slowest rank. `share`: microseconds
/// that all of it may take.
class CandidateTimer {
 public:
  using Tasks = std::vector<MeasuredTask>;  // one per placement

  CandidateTimer(Communicator& comm, const Topology& topology, const MeasuringPlan& plan)
      : comm_(comm), topology_(topology), plan_(plan), stopwatch_(comm) {}

  TimedCandidates candidates(const Call& call) const;
  /// Times one call of each. Takes away those that don't serve the call, and those whose results
  /// are wrong.
  void take_first(const Tasks& tasks, TimedCandidates& those);
  /// Replaces the candidates' times, which are those of one call, by exact ones, and adds other
  /// shapes of the fastest if the plan says so.
  void time_exactly(const Tasks& tasks, TimedCandidates& those, double share);
  void time_many(const Tasks& tasks, TimedCandidates& those, int most_repeats, double share);

  bool is_wrong(const TimedCandidate& candidate) const;
  void forget_wrong() { wrong_.clear(); }
  LaunchShape shape_of(const Call& call, const TimedCandidate& candidate) const;
  /// Microseconds since the start, on rank 0's clock, as of the last times.
  double passed() const noexcept { return passed_; }

 private:
  void take_right(const Tasks& tasks, TimedCandidates& those);
  TimedCandidates other_shapes(const Call& call, const TimedCandidates& those) const;
  double repeat_length() const;
  int repeats_for(const Tasks& tasks, const TimedCandidates& those, int most, double share) const;
  template <class Time>
  void time_each(TimedCandidates& those, const Tasks& tasks, Time time);
  CallOptions options_of(const Call& call, const TimedCandidate& candidate) const;

  Communicator& comm_;
  const Topology& topology_;
  const MeasuringPlan& plan_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Stopwatch stopwatch_;
  double passed_ = 0;
  TimedCandidates wrong_;
};

}  // namespace plait
