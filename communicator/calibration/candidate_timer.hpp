// The algorithms that compete for calls of one kind and size, and their times.
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calibration/plan.hpp"
#include "communicator/calibration/stopwatch.hpp"
#include "communicator/selection/selection.hpp"
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

/// Keeps the lesser of both times of each candidate.
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

  /// Those that times may choose.
  TimedCandidates candidates(const Call& call) const {
    const Selector& selector = selector_of(comm_);
    const Call in_order = selector.in_kept_order(selector.ordered(call, {}));
    TimedCandidates all;
    for (const auto& algorithm : Registry::instance().all())
      if (algorithm->collective() == call.collective && selector.admits(*algorithm, in_order) &&
          std::isfinite(algorithm->estimate(call, topology_)) && all.size() < most_candidates)
        all.push_back({algorithm.get()});
    return all;
  }
  /// Times one call of each. Removes those that don't serve the call and those whose results are
  /// wrong.
  void take_first(const Tasks& tasks, TimedCandidates& those) {
    time_each(those, tasks, [&](const MeasuredTask& task, const TimedCandidate& c) {
      return stopwatch_.first(task, options_of(task.call, c));
    });
    std::erase_if(those, [](const TimedCandidate& c) { return !std::isfinite(c.microseconds); });
    take_right(tasks, those);
  }
  /// Replaces the candidates' times, which are those of one call, by exact ones, and adds other
  /// shapes of the fastest if the plan says so.
  void time_exactly(const Tasks& tasks, TimedCandidates& those, double share) {
    if (those.empty()) return;
    const double expected = fastest(those).microseconds;
    time_many(tasks, those, plan_.repeats, share, expected);
    if (plan_.all_shapes) {
      TimedCandidates others = other_shapes(tasks.front().call, those);
      take_right(tasks, others);
      if (!others.empty()) time_many(tasks, others, plan_.repeats, share, expected);
      those.insert(those.end(), others.begin(), others.end());
    }
    if (plan_.finals == 0) return;
    // One repeat of each at a time, so that what slows the machine down slows all of them down.
    TimedCandidates close;
    const double limit = close_factor * fastest(those).microseconds;
    std::copy_if(those.begin(), those.end(), std::back_inserter(close),
                 [&](const TimedCandidate& c) { return c.microseconds < limit; });
    if (close.size() < 2) return;
    const int rounds = repeats_for(tasks, close, plan_.finals, share);
    for (int i = 0; i < rounds; ++i) {
      TimedCandidates again = close;
      time_many(tasks, again, 1, share, expected);
      take_less(those, again);
    }
  }
  /// `expected`: microseconds of a call, the same for all that are compared. It decides how many
  /// calls share a graph's start, which is some tenths of a microsecond for each.
  void time_many(const Tasks& tasks, TimedCandidates& those, int most_repeats, double share,
                 double expected) {
    expected = std::max(expected, 0.01);
    const auto as_many = [](double of, int most) {
      return static_cast<int>(std::clamp(of, 1.0, static_cast<double>(most)));
    };
    const int calls = stopwatch_.waits() ? 1 : as_many(graph_us / expected, most_calls),
              rounds = as_many(repeat_length() / (expected * calls), most_rounds),
              repeats = repeats_for(tasks, those, most_repeats, share);
    // One repeat of each at a time, for the same reason, but only where calls are waited for:
    // graphs would be captured for each repeat.
    const int passes = stopwatch_.waits() ? repeats : 1;
    TimedCandidates all;
    for (int pass = 0; pass < passes; ++pass) {
      time_each(those, tasks, [&](const MeasuredTask& task, const TimedCandidate& c) {
        return stopwatch_.many(task, options_of(task.call, c), calls, rounds, repeats / passes);
      });
      if (pass == 0) all = those;
      else take_less(all, those);
    }
    those = std::move(all);
  }

  bool is_wrong(const TimedCandidate& candidate) const {
    return std::any_of(wrong_.begin(), wrong_.end(),
                       [&](const TimedCandidate& wrong) { return wrong.is_of(candidate); });
  }
  void forget_wrong() { wrong_.clear(); }
  LaunchShape shape_of(const Call& call, const TimedCandidate& candidate) const {
    LaunchShape shape = candidate.algorithm->shapes(call, topology_)[candidate.shape];
    shape.threads = std::min(shape.threads, topology_.max_block_threads);
    return candidate.algorithm->fitted(shape, call, topology_);
  }
  /// Microseconds since the start, on rank 0's clock, as of the last times.
  double passed() const noexcept { return passed_; }

 private:
  static constexpr std::size_t most_candidates = 96;
  /// A repeat of a calibration lasts about that long, if it can, because ranks begin at different
  /// moments. It launches a graph several times, since calls cost more to capture than to replay.
  static constexpr double repeat_us = 120, repeat_on_host_us = 40, graph_us = 100;
  static constexpr int most_calls = 8, most_rounds = 100;

  void take_right(const Tasks& tasks, TimedCandidates& those) {
    std::erase_if(those, [&](const TimedCandidate& c) { return is_wrong(c); });
    if (!plan_.is_right) return;
    std::erase_if(those, [&](const TimedCandidate& c) {
      const bool is_right = std::all_of(tasks.begin(), tasks.end(), [&](const MeasuredTask& task) {
        return plan_.is_right(task.call, task.in_place, *c.algorithm, shape_of(task.call, c));
      });
      if (!is_right) wrong_.push_back(c);
      return !is_right;
    });
  }
  /// The shapes, besides the first, of those that are nearly the fastest.
  TimedCandidates other_shapes(const Call& call, const TimedCandidates& those) const {
    TimedCandidates others;
    for (const TimedCandidate& c : those) {
      if (c.shape != 0 || c.microseconds > near_factor * fastest(those).microseconds) continue;
      std::vector<LaunchShape> known{shape_of(call, c)};
      const std::size_t shapes = c.algorithm->shapes(call, topology_).size();
      for (unsigned i = 1; i < shapes && those.size() + others.size() < most_candidates; ++i) {
        const TimedCandidate other{c.algorithm, i, c.microseconds};
        const LaunchShape shape = shape_of(call, other);
        if (std::find(known.begin(), known.end(), shape) != known.end()) continue;
        known.push_back(shape);
        others.push_back(other);
      }
    }
    return others;
  }
  double repeat_length() const {
    return plan_.repeat_us > 0  ? plan_.repeat_us
           : stopwatch_.waits() ? repeat_on_host_us
                                : repeat_us;
  }
  /// As many as fit into the time for this size.
  int repeats_for(const Tasks& tasks, const TimedCandidates& those, int most, double share) const {
    double each = 0;
    for (const TimedCandidate& c : those) each += std::max(c.microseconds, repeat_length());
    const double fit = share / (each * static_cast<double>(tasks.size()));
    return static_cast<int>(std::clamp(fit, 1.0, static_cast<double>(most)));
  }
  template <class Time>
  void time_each(TimedCandidates& those, const Tasks& tasks, Time time) {
    struct OfRank {
      std::array<double, most_candidates> microseconds;
      double passed;
    } mine{};
    std::vector<double> logarithms(those.size());
    for (const MeasuredTask& task : tasks) {
      for (std::size_t i = 0; i < those.size(); ++i) mine.microseconds[i] = time(task, those[i]);
      mine.passed =
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
              .count();
      const auto all = comm_.bootstrap().all_gather(mine);
      passed_ = all[0].passed;
      for (std::size_t i = 0; i < those.size(); ++i) {
        double slowest = 0;
        for (const OfRank& rank : all) slowest = std::max(slowest, rank.microseconds[i]);
        logarithms[i] += std::log(std::max(slowest, 1e-3));
      }
    }
    for (std::size_t i = 0; i < those.size(); ++i)
      those[i].microseconds = std::exp(logarithms[i] / static_cast<double>(tasks.size()));
  }
  CallOptions options_of(const Call& call, const TimedCandidate& candidate) const {
    CallOptions options{.algorithm = std::string(candidate.algorithm->name())};
    if (candidate.shape == 0) return options;
    const LaunchShape shape = shape_of(call, candidate);
    options.blocks = shape.blocks;
    options.threads = shape.threads;
    return options;
  }

  Communicator& comm_;
  const Topology& topology_;
  const MeasuringPlan& plan_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const Stopwatch stopwatch_;
  double passed_ = 0;
  TimedCandidates wrong_;
};

}  // namespace plait
