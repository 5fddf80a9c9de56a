// How far a run has come, and how long it will still take.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <string>

#include "bench/options.hpp"

namespace plait::bench {

/// Estimates the time for the measurements that are still open. One measurement counts as long as
/// those of its size took on average, or scaled as those of the nearest size, while its own was not
/// measured.
class RemainingTime {
 public:
  /// A measurement with messages of `bytes` bytes will come.
  void expect(std::size_t bytes) { ++sizes_[bytes].open; }
  /// One of these has taken so long.
  void took(std::size_t bytes, double seconds);
  /// Seconds for the open measurements. None before the first measurement.
  std::optional<double> left() const;
  /// The share of all time that has passed, from 0 to 1.
  double share() const;
  int done() const { return done_; }
  int all() const;

 private:
  struct Size {
    int open = 0, done = 0;
    double seconds = 0;  // of those done
  };
  double seconds_of_one(std::size_t bytes) const;

  std::map<std::size_t, Size> sizes_;
  int done_ = 0;
};

/// "45 s", "12 min" or "3 h 20 min".
std::string duration(double seconds);

/// Shows how far a program is: as one line of a terminal that is drawn again and again, or as a few
/// lines, one for each tenth.
class ProgressLine {
 public:
  /// `how` must not be `automatic`: see `resolve`. Lines begin after `quiet`, so that short runs
  /// print none, and keep that distance.
  ProgressLine(const char* program, Progress how, std::FILE* out,
               std::chrono::seconds quiet = std::chrono::seconds(5))
      : program_(program), how_(how), out_(out), quiet_(quiet) {}
  /// Wipes the bar.
  ~ProgressLine() { hide(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool is_silent() const { return how_ == Progress::none; }
  /// `share`: the part of all time that has passed, from 0 to 1. `left`: the seconds that remain,
  /// if known. `count`: such as "3 of 7", or empty. `what`: the work at hand, for a
  /// terminal. It may have user text: it is made printable.
  void show(double share, std::optional<double> left, const std::string& count,
            const std::string& what);
  /// Wipes the bar, because the terminal will show something else. The next `show` draws it.
  void hide();

 private:
  using Clock = std::chrono::steady_clock;

  const char* program_;
  Progress how_;
  std::FILE* out_;
  std::chrono::seconds quiet_;
  bool drawn_ = false;
  Clock::time_point started_ = Clock::now(), last_shown_;
  int tenths_ = 0;  // printed as lines
};

/// The progress of measurements.
class ProgressReport {
 public:
  /// As for ProgressLine.
  ProgressReport(Progress how, std::FILE* out, std::chrono::seconds quiet = std::chrono::seconds(5))
      : line_("plait-bench", how, out, quiet) {}

  void expect(std::size_t bytes) { time_.expect(bytes); }
  /// The next measurement begins, and the one before has ended. `what`: as for ProgressLine.
  void begin(std::size_t bytes, const std::string& what);
  void hide() { line_.hide(); }
  /// The last measurement has ended.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void finish_one();

  ProgressLine line_;
  RemainingTime time_;
  std::size_t bytes_ = 0;
  bool running_ = false;
  Clock::time_point begun_ = Clock::now();
};

/// `bar` or `lines` for `automatic`, depending on whether `out` is a terminal.
Progress resolve(Progress how, std::FILE* out);

}  // namespace plait::bench
