// Times calls of one algorithm, as GPUs run graphs and as a host waits for its calls.
#pragma once
#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "plait/communicator.hpp"
#include "plait/error.hpp"

namespace plait {

/// A call and this rank's buffers.
struct MeasuredTask {
  Call call;
  bool in_place;
  CallBuffers buffers;
};

/// All functions are collective; times are this rank's, in microseconds.
class Stopwatch {
 public:
  explicit Stopwatch(Communicator& comm)
      : comm_(comm),
        backend_(backend_of(comm)),
        waits_(comm.backend_kind() == BackendKind::host),
        stream_(comm.create_stream()),
        begin_(backend_.create_event()),
        end_(backend_.create_event()) {}

  /// Whether calls are waited for one by one. Otherwise they run in graphs.
  bool waits() const noexcept { return waits_; }
  /// One call, after one that finds its memory. Infinite if it is refused, on all ranks alike.
  double first(const MeasuredTask& task, const CallOptions& options) const {
    const auto work = [&] { enqueue(task, options); };
    try {
      work();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument)
        throw;
      return never;
    }
    comm_.synchronize(stream_);
    return timed(work);
  }
  /// The least mean over `rounds` times `calls` calls, after one call. A graph has `calls` calls.
  double many(const MeasuredTask& task, const CallOptions& options, int calls, int rounds,
              int repeats) const {
    std::function<void()> round = [&] {
      for (int i = 0; i < calls; ++i) {
        enqueue(task, options);
        if (waits_) comm_.synchronize(stream_);
      }
    };
    enqueue(task, options);  // a capture must not be the first to find the memory
    std::unique_ptr<Graph> graph;
    if (!waits_) {
      const DeviceScope device(backend_);
      backend_.begin_capture(stream_.native());
      round();
      graph = backend_.end_capture(stream_.native());
      graph->launch(stream_.native());  // uploads it
      round = [&] { graph->launch(stream_.native()); };
    }
    double least = never;
    for (int repeat = 0; repeat < repeats; ++repeat)
      least = std::min(least, timed([&] {
                         for (int i = 0; i < rounds; ++i) round();
                       }));
    return least / (rounds * calls);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double never = std::numeric_limits<double>::infinity();

  void enqueue(const MeasuredTask& task, const CallOptions& options) const {
    comm_.enqueue(task.call, task.buffers.send, task.buffers.recv, stream_, options);
  }
  double timed(const std::function<void()>& work) const {
    comm_.barrier(stream_);
    if (waits_) {
      comm_.synchronize(stream_);
      const auto start = Clock::now();
      work();
      comm_.synchronize(stream_);
      return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    }
    const DeviceScope device(backend_);
    begin_->record(stream_.native());
    work();
    end_->record(stream_.native());
    comm_.synchronize(stream_);
    return end_->milliseconds_since(*begin_) * 1e3;
  }

  Communicator& comm_;
  Backend& backend_;
  const bool waits_;
  Stream stream_;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

}  // namespace plait
