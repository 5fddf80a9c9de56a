// The inside of a communicator.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "communicator/calls/call_path.hpp"
#include "communicator/calls/collective_calls.hpp"
#include "communicator/calls/kernel_calls.hpp"
#include "communicator/fault/monitor.hpp"
#include "communicator/host_reductions/host_reducer.hpp"
#include "communicator/messages/message_calls.hpp"
#include "communicator/messages/one_sided_calls.hpp"
#include "communicator/resources/faults.hpp"
#include "communicator/resources/resources.hpp"
#include "core/backoff.hpp"
#include "plait/communicator.hpp"

namespace plait {

/// The pace of a wait for one of several streams: no runtime has such a wait.
inline constexpr Backoff::Pace stream_pace{.spins = 100, .sleep = std::chrono::microseconds(50)};

/// The resources, the path of a call, the error that breaks both, and the calls that wait for work.
class CommunicatorState {
 public:
  /// `parent`: the communicator that this one is a part of, or null.
  CommunicatorState(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options,
                    const CommunicatorState* parent = nullptr,
                    HostDevices host = HostDevices::one_per_rank);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  void copy(void* to, const void* from, std::size_t bytes, StreamRef stream);
  void reserve();
  void check_not_grouped(std::string_view what, std::string_view consequence) const;
  void synchronize(StreamRef stream);
  bool test(StreamRef stream);
  std::size_t wait_any(std::span<const StreamRef> streams);

  CommunicatorResources resources;
  Faults faults{resources};
  CallPath path{resources, faults};
  CollectiveCalls collectives{resources, faults, path};
  MessageCalls messages{resources, faults, path};
  OneSidedCalls one_sided{resources, path};
  KernelCalls kernels{resources, path};
  HostReducer host_reducer{resources, faults, path, collectives};

 private:
  void watch_others();
  void announce_end() noexcept;
  void finish() noexcept;
  void warn_of_left_over() const;
  NativeStream check_waited(std::string_view what, StreamRef stream);
  bool has_ended(NativeStream stream);

  std::optional<Monitored> monitored_;
};

}  // namespace plait
