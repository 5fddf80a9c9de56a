// Calls of a vendor's runtime. CUDA and HIP have the same functions under two prefixes: the list
// below, and what a target's runtime.hpp adds to it. backends/gpu is written against both.
#pragma once
#include <fmt/format.h>

#include "plait/error.hpp"

namespace plait::gpu {

/// The target's error codes:
///   static constexpr Status success, not_ready, out_of_memory;
///   static const char* name(Status), *text(Status);
///   static void forget();  // resets the runtime's record of the last error
template <class Status>
struct StatusTraits;

/// Throws an Error that names the call: `out_of_memory` for lack of memory, `backend` for any other
/// failure.
template <class Status>
void check(Status status, const char* call) {
  using Traits = StatusTraits<Status>;
  if (status == Traits::success) return;
  Traits::forget();  // a later check by other code must not find an error that is not sticky
  throw Error(status == Traits::out_of_memory ? ErrorCode::out_of_memory : ErrorCode::backend,
              fmt::format("{}: {} ({})", call, Traits::text(status), Traits::name(status)));
}

/// A function of the runtime and its name for messages.
template <class Status, class... Args>
class RuntimeCall {
 public:
  using Function = Status (*)(Args...);
  constexpr RuntimeCall(const char* name, Function function) : name_(name), function_(function) {}

  /// Throws unless the call succeeds.
  void operator()(Args... args) const { check(function_(args...), name_); }
  /// For callers that check the status themselves or can't throw.
  Status status(Args... args) const { return function_(args...); }
  void check_status(Status status) const { check(status, name_); }

 private:
  const char* name_;
  Function function_;
};

}  // namespace plait::gpu

/// CALL(name, FUNCTION) for each function that both runtimes have, without its prefix.
#define PLAIT_GPU_CALLS(CALL)                                  \
  CALL(get_device_count, GetDeviceCount)                       \
  CALL(get_device, GetDevice)                                  \
  CALL(set_device, SetDevice)                                  \
  CALL(device_synchronize, DeviceSynchronize)                  \
  CALL(free, Free)                                             \
  CALL(host_register, HostRegister)                            \
  CALL(host_unregister, HostUnregister)                        \
  CALL(copy, MemcpyAsync)                                      \
  CALL(fill, MemsetAsync)                                      \
  CALL(stream_create, StreamCreateWithFlags)                   \
  CALL(stream_destroy, StreamDestroy)                          \
  CALL(stream_synchronize, StreamSynchronize)                  \
  CALL(stream_query, StreamQuery)                              \
  CALL(stream_wait_event, StreamWaitEvent)                     \
  CALL(stream_is_capturing, StreamIsCapturing)                 \
  CALL(exchange_capture_mode, ThreadExchangeStreamCaptureMode) \
  CALL(stream_begin_capture, StreamBeginCapture)               \
  CALL(stream_end_capture, StreamEndCapture)                   \
  CALL(launch_host_function, LaunchHostFunc)                   \
  CALL(graph_destroy, GraphDestroy)                            \
  CALL(graph_exec_destroy, GraphExecDestroy)                   \
  CALL(graph_launch, GraphLaunch)                              \
  CALL(event_create, EventCreateWithFlags)                     \
  CALL(event_destroy, EventDestroy)                            \
  CALL(event_record, EventRecord)                              \
  CALL(event_query, EventQuery)                                \
  CALL(event_synchronize, EventSynchronize)                    \
  CALL(event_elapsed_time, EventElapsedTime)
