// Times calls of one algorithm, as GPUs run graphs and as a host waits for its calls.
#pragma once
#include <chrono>
#include <functional>
#include <memory>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "plait/communicator.hpp"

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
  explicit Stopwatch(Communicator& comm);

  /// Whether calls are waited for one by one. Otherwise they run in graphs.
  bool waits() const noexcept { return waits_; }
  /// One call, after one that finds its memory. Infinite if it is refused, on all ranks alike.
  double first(const MeasuredTask& task, const CallOptions& options) const;
  /// The least mean over `rounds` times `calls` calls, after one call. A graph has `calls` calls.
  double many(const MeasuredTask& task, const CallOptions& options, int calls, int rounds,
              int repeats) const;

 private:
  void enqueue(const MeasuredTask& task, const CallOptions& options) const;
  double timed(const std::function<void()>& work) const;

  Communicator& comm_;
  Backend& backend_;
  const bool waits_;
  Stream stream_;
  std::unique_ptr<DeviceEvent> begin_, end_;
};

}  // namespace plait
