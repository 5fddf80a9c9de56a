// Compiles a kernel family for CUDA.
#pragma once
#include "backends/cuda/ptx.hpp"
#include "backends/cuda/target.hpp"
#include "backends/gpu/instantiate.hpp"

namespace plait::cuda {
struct KernelTarget : Target {
  using Isa = Ptx;

  /// From sm_90 on, a kernel that is launched `early` may start while the kernel before it in the
  /// stream still runs. It then waits for that kernel's end itself (Ptx::begin), so its start costs
  /// less time. Older GPUs ignore the attribute.
  template <class Args>
  static Status launch(void (*kernel)(Args, Watch), LaunchShape shape, std::size_t shared_bytes,
                       bool early, Stream stream, const Args& args, const Watch& watch) {
    cudaLaunchAttribute start_early{};
    start_early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    start_early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(shape.blocks);
    config.blockDim = dim3(shape.threads);
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &start_early;
    config.numAttrs = early ? 1 : 0;
    return cudaLaunchKernelEx(&config, kernel, args, watch);
  }
};
}  // namespace plait::cuda

#define PLAIT_INSTANTIATE(family)                                               \
  static const bool family##_added =                                            \
      plait::gpu::add_kernels<plait::cuda::KernelTarget, plait::family::Kernel, \
                              plait::family::Args>(#family, plait::family::Types{});
