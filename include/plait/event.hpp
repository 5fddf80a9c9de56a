// Events: points in streams, for programs that order streams of Plait and of CUDA or HIP.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include "plait/language.hpp"
#include "plait/stream.hpp"

namespace plait {

class EventState;

/// A point in a stream, from `Communicator::create_event()`. A copy is the same event. On GPUs it
/// is an event of the runtime's, without times: `native` hands it to CUDA or HIP, and
/// `Communicator::wrap_event` takes one from there.
///
///     plait::Event ready = comm.create_event();
///     comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum, stream);
///     ready.record(stream);
///     cudaStreamWaitEvent(other, static_cast<cudaEvent_t>(ready.native()));
///
/// An event tells nothing of errors: the calls of a broken communicator end, and the events behind
/// them are reached. Ask `Communicator::test` or `async_error`. One thread at a time uses an event.
/// The default stream is, as in calls, on GPUs the device's and on the host the calling thread's.
///
/// Every call throws `Error(invalid_argument)` on an event that was moved from, or whose process
/// has forked this one, and `Error(backend)` if the runtime refuses.
class Event {
 public:
  explicit Event(std::shared_ptr<EventState> state) : state_(std::move(state)) {}

  /// The event is now the point behind all that was enqueued in `stream`. `Error(invalid_argument)`
  /// within a group, whose calls are not enqueued yet, and for a stream of the host that was
  /// destroyed.
  void record(StreamRef stream = {}) const;
  /// Work that is enqueued in `stream` from now on waits for the event's last point. The host does
  /// not wait. Throws as `record`. Without a point there is nothing to wait for.
  void wait(StreamRef stream = {}) const;
  /// True if the stream has come to the last point, or there is none. Never waits.
  bool test() const;
  /// Waits on the host until the stream has come to the last point.
  void synchronize() const;
  /// The `cudaEvent_t` or `hipEvent_t`; on the host a number that `wrap_event` knows while the
  /// event exists.
  void* native() const;

 private:
  std::shared_ptr<EventState> state_;
};

}  // namespace plait
