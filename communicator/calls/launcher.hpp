// From published calls to kernels on streams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/side_stream.hpp"
#include "algorithms/contract/work_memory.hpp"
#include "communicator/calls/known_calls.hpp"
#include "communicator/calls/publisher.hpp"
#include "communicator/resources/resources.hpp"
#include "plait/statistics.hpp"

namespace plait {

/// For one thread at a time, the one inside the communicator. `make_room` may run on another thread
/// as long as no other thread uses this object. The caller binds the device (DeviceScope) for
/// `make_room` and `launch`.
class CallLauncher {
 public:
  /// `throw_if_broken`: called while a launch waits for room in the work FIFO.
  CallLauncher(CommunicatorResources& own, const CallPublisher& publisher,
               std::function<void()> throw_if_broken);

  /// True if all scratch memory of the plan's algorithms is allocated. If not, `make_room`
  /// allocates it together with the other ranks.
  bool has_room(const GroupPlan& plan) const;
  /// Gets scratch memory for the plan. Throws as AlgorithmMemory::of; the caller breaks the
  /// communicator then.
  void make_room(const GroupPlan& plan);
  /// Launches the plan on the stream of its first call, after `make_room`. That stream waits for
  /// the streams of the other calls, and these wait for it.
  void launch(const GroupPlan& plan);
  /// Launches again what a call outside a group has launched before. `number`: of this call.
  void launch(const KnownCall& call, std::uint64_t number, NativeStream stream);
  /// Launches it and waits for its end, if the target can do both at once, and nothing is before
  /// it. False: nothing was launched.
  bool launch_and_wait(const KnownCall& call, std::uint64_t number, NativeStream stream);

  /// Waits for all events of the work FIFO, and runs the functions behind them (EventQueue::drain).
  void drain() noexcept { events_.drain(); }
  /// True if a message was captured, so a graph may hold it.
  bool captures_messages() const noexcept { return captures_messages_; }
  /// Launches, batched calls and work items; the publisher counts calls.
  Statistics statistics() const;

 private:
  unsigned blocks_of(const GroupStep& step, const GroupPlan& plan) const;
  void join_before(const GroupPlan& plan, NativeStream stream);
  void join_after(NativeStream stream);
  void run(const GroupStep& step, const GroupPlan& plan, NativeStream stream, bool captured);
  Watch watch(std::uint64_t number, std::size_t algorithm) const;
  void add_to_trace(const GroupPlan& plan, bool captured);

  CommunicatorResources& own_;
  const CallPublisher& publisher_;
  Backend* const profiled_;  // whose profiler shows the launches; null: no ranges
  SideStreams sides_;
  EventQueue events_;
  WorkMemory work_;
  KernelCache kernels_;
  std::unique_ptr<DeviceEvent> joined_;  // joins the streams of a group
  std::vector<NativeStream> others_;     // streams of the plan's calls except the first call's
  std::vector<BatchedCall> batch_;
  Statistics statistics_;
  bool captures_messages_ = false;
};

}  // namespace plait
