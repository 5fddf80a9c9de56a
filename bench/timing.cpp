#include "bench/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "bench/memory.hpp"

namespace plait::bench {
namespace {

using Clock = std::chrono::steady_clock;
double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// Small messages need many calls per repeat, so that its start and end don't matter. For large ones
// a time limit is enough.
constexpr std::size_t small_bytes = 256 << 10;
constexpr int small_calls = 200, most_calls = 400, least_calls = 3;
constexpr double repeat_us = 50e3;
// With more ranks than processors, even a small call takes milliseconds. 200 such calls would take
// too long.
constexpr double longest_repeat_us = 1e6;
constexpr int least_small_calls = 20;

}  // namespace

Times::Times(std::vector<double> microseconds) : sorted_(std::move(microseconds)) {
  std::sort(sorted_.begin(), sorted_.end());
}

double Times::quantile(double q) const {
  const double position = q * static_cast<double>(sorted_.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const auto above = std::min(below + 1, sorted_.size() - 1);
  return sorted_[below] +
         (position - static_cast<double>(below)) * (sorted_[above] - sorted_[below]);
}

double Times::mean() const {
  return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / static_cast<double>(size());
}

double Times::deviation() const {
  if (size() < 2) return 0;
  const double middle = mean();
  double squares = 0;
  for (const double sample : sorted_) squares += (sample - middle) * (sample - middle);
  return std::sqrt(squares / static_cast<double>(size() - 1));
}

std::string_view samples_of(Timing timing) {
  return timing == Timing::latency ? "calls" : "repeats";
}

Timer::Timer(Communicator& comm, NativeStream stream, const Options& options)
    : comm_(comm),
      stream_(stream),
      timing_(options.timing),
      iterations_(options.iterations),
      warm_up_(options.warm_up),
      repeats_(options.repeats),
      begin_(backend_of(comm).create_event()),
      end_(backend_of(comm).create_event()) {}

Times Timer::measure(const Enqueue& enqueue, std::size_t bytes) {
  warm_up(enqueue);
  calls_ = iterations_ ? iterations_ : choose_calls(enqueue, bytes);
  Enqueue work = [&](NativeStream stream) {
    for (int i = 0; i < calls_; ++i) enqueue(stream);
  };
  std::unique_ptr<Graph> graph;
  if (timing_ == Timing::graph) {
    backend_of(comm_).begin_capture(stream_);
    work(stream_);
    graph = backend_of(comm_).end_capture(stream_);
    work = [&](NativeStream stream) { graph->launch(stream); };
    // A runtime may allocate memory for a graph, and in one process that could wait for another
    // rank's device, where the first launch already waits for this rank.
    comm_.bootstrap().barrier();
    work(stream_);  // the first launch uploads the graph
    comm_.synchronize(stream_ref(stream_));
  }
  std::vector<double> times;
  for (int repeat = 0; repeat < repeats_; ++repeat) {
    if (timing_ == Timing::latency) {
      const std::vector<double> calls = single_calls(enqueue);
      times.insert(times.end(), calls.begin(), calls.end());
      continue;
    }
    const bool on_device = timing_ == Timing::graph || timing_ == Timing::events;
    times.push_back(
        slowest((on_device ? repeat_on_device(work) : repeat_wall_clock(enqueue)) / calls_));
  }
  return Times(std::move(times));
}

/// Makes at least one call, because a capture must not be the first to find that a call isn't
/// served.
void Timer::warm_up(const Enqueue& enqueue) {
  for (int i = 0; i < std::max(warm_up_, 1); ++i) enqueue(stream_);
  comm_.synchronize(stream_ref(stream_));
}

/// Returns the same number on all ranks.
int Timer::choose_calls(const Enqueue& enqueue, std::size_t bytes) {
  constexpr int tries = 3;
  line_up();
  const auto start = Clock::now();
  for (int i = 0; i < tries; ++i) enqueue(stream_);
  comm_.synchronize(stream_ref(stream_));
  const double call_us = std::max(slowest(microseconds_since(start)) / tries, 0.01);
  const auto calls_in = [&](double budget, int least) {
    return static_cast<int>(
        std::clamp(std::floor(budget / call_us), double{1} * least, double{1} * most_calls));
  };
  const int calls = calls_in(repeat_us, least_calls);
  return bytes > small_bytes
             ? calls
             : std::max(calls,
                        std::min(small_calls, calls_in(longest_repeat_us, least_small_calls)));
}

/// Microseconds between the events around `work`.
double Timer::repeat_on_device(const Enqueue& work) {
  comm_.bootstrap().barrier();
  comm_.barrier(stream_ref(stream_));
  begin_->record(stream_);
  work(stream_);
  end_->record(stream_);
  comm_.synchronize(stream_ref(stream_));
  return end_->milliseconds_since(*begin_) * 1e3;
}

double Timer::repeat_wall_clock(const Enqueue& enqueue) {
  line_up();
  const auto start = Clock::now();
  for (int i = 0; i < calls_; ++i) {
    enqueue(stream_);
    if (timing_ == Timing::loop) comm_.synchronize(stream_ref(stream_));
  }
  if (timing_ == Timing::throughput) comm_.synchronize(stream_ref(stream_));
  const double microseconds = microseconds_since(start);
  if (timing_ == Timing::enqueue) comm_.synchronize(stream_ref(stream_));
  return microseconds;
}

/// Microseconds of each call on the rank that was slowest in it.
std::vector<double> Timer::single_calls(const Enqueue& enqueue) {
  const auto count = static_cast<std::size_t>(calls_);
  std::vector<double> mine(count), all(count * static_cast<std::size_t>(comm_.size()));
  line_up();
  Clock::time_point before = Clock::now();
  for (double& call : mine) {
    enqueue(stream_);
    comm_.synchronize(stream_ref(stream_));
    const Clock::time_point after = Clock::now();
    call = std::chrono::duration<double, std::micro>(after - before).count();
    before = after;
  }
  comm_.bootstrap().all_gather(mine.data(), all.data(), count * sizeof(double));
  for (std::size_t i = 0; i < all.size(); ++i) {
    double& slowest = mine[i % count];
    slowest = std::max(slowest, all[i]);
  }
  return mine;
}

double Timer::slowest(double microseconds) {
  const auto all = comm_.bootstrap().all_gather(microseconds);
  return *std::max_element(all.begin(), all.end());
}

/// All ranks leave with an empty stream, at about the same time.
void Timer::line_up() {
  comm_.bootstrap().barrier();
  comm_.barrier(stream_ref(stream_));
  comm_.synchronize(stream_ref(stream_));
}

}  // namespace plait::bench
