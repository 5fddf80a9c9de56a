// The HIP runtime, in the form that backends/gpu is written against.
#pragma once
#include <string_view>

#include "backends/gpu/runtime_call.hpp"
#include "backends/hip/target.hpp"
#include "plait/types.hpp"

namespace plait::gpu {
template <>
struct StatusTraits<hipError_t> {
  static constexpr hipError_t success = hipSuccess, not_ready = hipErrorNotReady,
                              out_of_memory = hipErrorOutOfMemory;
  static const char* name(hipError_t status) { return hipGetErrorName(status); }
  static const char* text(hipError_t status) { return hipGetErrorString(status); }
  static void forget() { static_cast<void>(hipGetLastError()); }
};
}  // namespace plait::gpu

namespace plait::hip {

struct Runtime : Target {
  static constexpr BackendKind kind = BackendKind::hip;
  static constexpr const char* label = "HIP";

  using Event = hipEvent_t;
  using Graph = hipGraph_t;
  using GraphExec = hipGraphExec_t;
  using CaptureMode = hipStreamCaptureMode;

  static constexpr unsigned event_default = hipEventDefault,
                            event_disable_timing = hipEventDisableTiming;
  // Coherent, whatever HIP_HOST_COHERENT says, because the host reads diagnostics that kernels
  // write while they run.
  static constexpr unsigned host_portable_and_mapped =
      hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent;
  static constexpr unsigned register_mapped = hipHostRegisterMapped;  // coherent, too
  static constexpr unsigned stream_non_blocking = hipStreamNonBlocking;
  static constexpr auto copy_any = hipMemcpyDefault;
  static constexpr auto not_capturing = hipStreamCaptureStatusNone;
  static constexpr auto capture_relaxed = hipStreamCaptureModeRelaxed;

  static Stream stream_per_thread() noexcept { return hipStreamPerThread; }

  static std::string_view why_uncounted(Status) { return {}; }
#define PLAIT_CALL(NAME, FUNCTION) \
  static constexpr gpu::RuntimeCall NAME{"hip" #FUNCTION, hip##FUNCTION};
  PLAIT_GPU_CALLS(PLAIT_CALL)
#undef PLAIT_CALL
  static constexpr gpu::RuntimeCall<Status, void**, std::size_t> allocate{"hipMalloc", hipMalloc};
  static constexpr gpu::RuntimeCall<Status, void**, std::size_t, unsigned> host_allocate{
      "hipHostMalloc", hipHostMalloc};
  static constexpr gpu::RuntimeCall host_free{"hipHostFree", hipHostFree};
  static constexpr gpu::RuntimeCall<Status, void**, void*, unsigned> host_device_pointer{
      "hipHostGetDevicePointer", hipHostGetDevicePointer};
  static constexpr bool identifies_streams = false;
  static constexpr gpu::RuntimeCall stream_capture{"hipStreamGetCaptureInfo",
                                                   hipStreamGetCaptureInfo};
  static constexpr gpu::RuntimeCall graph_instantiate{"hipGraphInstantiateWithFlags",
                                                      hipGraphInstantiateWithFlags};
  static constexpr gpu::RuntimeCall can_access_peer{"hipDeviceCanAccessPeer",
                                                    hipDeviceCanAccessPeer};
  static constexpr gpu::RuntimeCall enable_peer_access{"hipDeviceEnablePeerAccess",
                                                       hipDeviceEnablePeerAccess};
  static constexpr gpu::RuntimeCall get_ipc_handle{"hipIpcGetMemHandle", hipIpcGetMemHandle};
  static constexpr gpu::RuntimeCall open_ipc_handle{"hipIpcOpenMemHandle", hipIpcOpenMemHandle};
  static constexpr gpu::RuntimeCall close_ipc_handle{"hipIpcCloseMemHandle", hipIpcCloseMemHandle};
};

}  // namespace plait::hip
