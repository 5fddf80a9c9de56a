// PLAIT_TRACE: the times of a communicator's calls on the host and of each block on the device.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "communicator/observe/progress.hpp"
#include "communicator/observe/trace_file.hpp"
#include "plait/call.hpp"

namespace plait {

/// How far the device's clock is ahead of the host's. The bounds follow from causality: no launch
/// starts before its call, and a time that the host has read lies in the past.
class ClockOffset {
 public:
  /// Notes that `device_ns` lies after, or before, `host_ns`.
  void note_after(std::int64_t device_ns, std::int64_t host_ns);
  void note_before(std::int64_t device_ns, std::int64_t host_ns);
  /// The greatest possible value, with which the fastest launch seems to take no time.
  std::int64_t nanoseconds() const { return most_ ? *most_ : least_.value_or(0); }
  /// The distance of the bounds; none if only one is known.
  std::optional<std::int64_t> uncertainty() const;

 private:
  std::optional<std::int64_t> least_, most_;
};

/// Gathers a communicator's calls and spans, and writes them when it is destroyed, after the
/// kernels have ended. It has a thread that takes the spans from the device before they are
/// overwritten.
class Trace {
 public:
  /// A call on the host, from entry to return.
  struct HostCall {
    std::uint64_t number;
    std::chrono::steady_clock::time_point begin, end;
    Call call;
    std::uint32_t algorithm;
    LaunchShape shape;
    bool captured;
  };

  /// `name`: the communicator's, for human readers. `same_clock`: the device's clock is the host's.
  Trace(std::shared_ptr<TraceFile> file, BlockLog& log, std::string name,
        std::vector<std::string> algorithms, bool same_clock);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  const std::shared_ptr<TraceFile>& file() const { return file_; }
  /// Called by the thread that uses the communicator, in the order of the calls.
  void add(const HostCall& call);

  /// Limits a communicator's events, and its spans, so that a long run does not fill the memory.
  /// Those beyond are counted.
  static constexpr std::size_t most_events = 1'000'000;

 private:
  using Span = BlockLog::Span;

  void take();
  void run();
  void write();
  const HostCall* find(std::uint64_t call) const;
  void relate_clocks();

  std::shared_ptr<TraceFile> file_;
  BlockLog& log_;
  std::string name_;
  std::vector<std::string> algorithms_;
  bool same_clock_;
  std::chrono::steady_clock::time_point made_ = std::chrono::steady_clock::now();
  std::vector<HostCall> calls_;
  std::uint64_t calls_beyond_ = 0;
  // Used by the thread below, and by the destructor after it has ended.
  std::vector<Span> spans_;
  std::uint64_t overwritten_ = 0, spans_beyond_ = 0;
  ClockOffset clock_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

/// Sorts spans by their start and returns the index of the first span of each launch. Launches run
/// one after another, so a launch ends where its blocks are complete, a block comes again, or the
/// call changes.
std::vector<std::size_t> sort_into_launches(std::vector<BlockLog::Span>& spans);

}  // namespace plait
