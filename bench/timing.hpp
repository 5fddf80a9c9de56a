// The one clock for Plait and its peers.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "backends/backend.hpp"
#include "bench/options.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

/// Enqueues one call on a stream.
using Enqueue = std::function<void(NativeStream)>;

/// Samples of a call's time on the slowest rank, in microseconds and ascending order. The same on
/// all ranks.
class Times {
 public:
  Times() = default;
  explicit Times(std::vector<double> microseconds);
  std::size_t size() const { return sorted_.size(); }
  double least() const { return sorted_.front(); }
  double most() const { return sorted_.back(); }
  double median() const { return quantile(0.5); }
  double mean() const;
  /// Standard deviation of the samples, with size - 1 in the denominator; 0 of a single sample.
  double deviation() const;
  /// Interpolates linearly between the two values around q * (size - 1).
  double quantile(double q) const;

 private:
  std::vector<double> sorted_;
};

/// What a sample of `Timer` is: "calls", a single call, or "repeats", the mean of a repeat's calls.
/// Only calls that the host waits for are timed one by one. The others overlap at their ends, so a
/// clock or an event between them would change what is measured.
std::string_view samples_of(Timing timing);

/// Times calls, in one of six ways:
/// - graph: the calls are captured once; a repeat is a barrier on the device, an event, the graph
///   and an event. This is the cost of a call in a program that replays its work, without the host.
/// - events: the same, but the host enqueues every call.
/// - throughput: wall clock over all calls and one synchronisation at their end.
/// - latency: wall clock over each call, which is waited for. A rank that is ahead waits for the
///   others in its next call, and that wait counts.
/// - loop: wall clock over all calls, each of which is waited for. Where other ranks are slow in
///   each call, as those of rooted calls whose root moves on, the sum of latencies is longer than
///   the loop: a rank that is ahead waits at the same time as others work.
/// - enqueue: wall clock until the last call has returned to its caller, before it is done. This is
///   the cost on the host.
///
/// Ranks start each repeat together. Construction and use are collective.
class Timer {
 public:
  Timer(Communicator& comm, NativeStream stream, const Options& options);

  /// Warms up, chooses the number of calls per repeat, and measures. `bytes` is the size of the
  /// message. The samples are the repeats, or with latency the calls of all repeats.
  Times measure(const Enqueue& enqueue, std::size_t bytes);
  /// Calls per repeat in the last measurement.
  int calls() const noexcept { return calls_; }

 private:
  void warm_up(const Enqueue& enqueue);
  int choose_calls(const Enqueue& enqueue, std::size_t bytes);
  double repeat_on_device(const Enqueue& work);
  double repeat_wall_clock(const Enqueue& enqueue);
  std::vector<double> single_calls(const Enqueue& enqueue);
  double slowest(double microseconds);
  void line_up();

  Communicator& comm_;
  NativeStream stream_;
  Timing timing_;
  int iterations_, warm_up_, repeats_;
  int calls_ = 0;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

}  // namespace plait::bench
