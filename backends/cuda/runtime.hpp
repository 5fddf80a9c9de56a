// The CUDA runtime, in the form that backends/gpu is written against.
#pragma once
#include <fmt/format.h>

#include <string>

#include "backends/cuda/target.hpp"
#include "backends/gpu/runtime_call.hpp"
#include "plait/types.hpp"

namespace plait::gpu {
template <>
struct StatusTraits<cudaError_t> {
  static constexpr cudaError_t success = cudaSuccess, not_ready = cudaErrorNotReady,
                               out_of_memory = cudaErrorMemoryAllocation;
  static const char* name(cudaError_t status) { return cudaGetErrorName(status); }
  static const char* text(cudaError_t status) { return cudaGetErrorString(status); }
  static void forget() { static_cast<void>(cudaGetLastError()); }
};
}  // namespace plait::gpu

namespace plait::cuda {

struct Runtime : Target {
  static constexpr BackendKind kind = BackendKind::cuda;
  static constexpr const char* label = "CUDA";

  using Event = cudaEvent_t;
  using Graph = cudaGraph_t;
  using GraphExec = cudaGraphExec_t;
  using CaptureMode = cudaStreamCaptureMode;

  static constexpr unsigned event_default = cudaEventDefault,
                            event_disable_timing = cudaEventDisableTiming;
  static constexpr unsigned host_portable_and_mapped = cudaHostAllocPortable | cudaHostAllocMapped;
  static constexpr unsigned register_mapped = cudaHostRegisterMapped;
  static constexpr unsigned stream_non_blocking = cudaStreamNonBlocking;
  static constexpr auto copy_any = cudaMemcpyDefault;
  static constexpr auto not_capturing = cudaStreamCaptureStatusNone;
  static constexpr auto capture_relaxed = cudaStreamCaptureModeRelaxed;

  static Stream stream_per_thread() noexcept { return cudaStreamPerThread; }

  /// Explains the status where the runtime's text does not.
  static std::string why_uncounted(Status status) {
    if (status != cudaErrorInsufficientDriver) return {};
    return fmt::format(" (there is no driver, or one that is older than CUDA {}.{})",
                       CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
#define PLAIT_CALL(NAME, FUNCTION) \
  static constexpr gpu::RuntimeCall NAME{"cuda" #FUNCTION, cuda##FUNCTION};
  PLAIT_GPU_CALLS(PLAIT_CALL)
#undef PLAIT_CALL
  static constexpr gpu::RuntimeCall allocate{"cudaMalloc", cudaMalloc};
  static constexpr gpu::RuntimeCall host_allocate{"cudaHostAlloc", cudaHostAlloc};
  static constexpr gpu::RuntimeCall host_free{"cudaFreeHost", cudaFreeHost};
  static constexpr gpu::RuntimeCall<Status, void**, void*, unsigned> host_device_pointer{
      "cudaHostGetDevicePointer", cudaHostGetDevicePointer};
  static constexpr bool identifies_streams = true;
  static constexpr gpu::RuntimeCall stream_number{"cudaStreamGetId", cudaStreamGetId};
  static constexpr gpu::RuntimeCall<Status, Stream, cudaStreamCaptureStatus*, unsigned long long*>
      stream_capture{"cudaStreamGetCaptureInfo", [](Stream stream, cudaStreamCaptureStatus* status,
                                                    unsigned long long* number) {
                       // Its further parameters differ between versions.
                       return cudaStreamGetCaptureInfo(stream, status, number);
                     }};
  static constexpr gpu::RuntimeCall graph_instantiate{"cudaGraphInstantiate", cudaGraphInstantiate};
};

}  // namespace plait::cuda
