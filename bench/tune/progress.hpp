// How far the tuner is, on standard error.
#pragma once
#include <chrono>
#include <string>

namespace plait::bench {

/// A line that is written anew on a terminal, and a line per step elsewhere. For one rank.
class TuneProgress {
 public:
  TuneProgress();
  ~TuneProgress();
  TuneProgress(const TuneProgress&) = delete;
  TuneProgress& operator=(const TuneProgress&) = delete;

  /// `step`: a name for the work at hand; elsewhere than on a terminal, a new one is a new line.
  /// `detail` is for terminals. `done`: the part of all work that is done; `most_seconds`: the work
  /// ends by then.
  void show(const std::string& step, const std::string& detail, double done, double most_seconds);
  /// Frees the line on a terminal for another text.
  void hide() const;

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const bool on_terminal_;
  bool begun_ = false;
  std::string step_;
};

}  // namespace plait::bench
