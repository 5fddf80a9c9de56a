// Compiles a kernel family for HIP: on AMD GPUs, or on NVIDIA GPUs through HIP's NVIDIA platform.
#pragma once
#include "backends/hip/api.hpp"
//
#include <hip/hip_runtime.h>

#include "backends/gpu/instantiate.hpp"
#include "backends/hip/target.hpp"

#if defined(__HIP_PLATFORM_NVIDIA__)
#include "backends/cuda/ptx.hpp"
#else
#include "backends/hip/gcn.hpp"
#endif

namespace plait::hip {
struct KernelTarget : Target {
#if defined(__HIP_PLATFORM_NVIDIA__)
  using Isa = cuda::Ptx;
#else
  using Isa = Gcn;
#endif

  /// HIP knows no early starts.
  template <class Args>
  static Status launch(void (*kernel)(Args, Watch), LaunchShape shape, std::size_t shared_bytes, bool, Stream stream, const Args& args,
                       const Watch& watch) {
    kernel<<<shape.blocks, shape.threads, shared_bytes, stream>>>(args, watch);
    return hipGetLastError();
  }
};
}  // namespace plait::hip

#define PLAIT_INSTANTIATE(family)    \
  static const bool family##_added = \
      plait::gpu::add_kernels<plait::hip::KernelTarget, plait::family::Kernel, plait::family::Args>(#family, plait::family::Types{});
