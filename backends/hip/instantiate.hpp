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

  /// HIP has no early starts.
  template <class Args>
  static Status launch(void (*kernel)(Args, Watch), LaunchShape shape, std::size_t shared_bytes,
                       bool, Stream stream, const Args& args, const Watch& watch) {
    // Not <<<...>>> with hipGetLastError, which from HIP 7.0 on also reports earlier errors of the
    // thread (AMD: HIP API 7.0 changes).
    const void* const arguments[] = {&args, &watch};
    return hipLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(shape.blocks),
                           dim3(shape.threads), const_cast<void**>(arguments), shared_bytes,
                           stream);
  }
};
}  // namespace plait::hip

#define PLAIT_INSTANTIATE(family)                                              \
  static const bool family##_added =                                           \
      plait::gpu::add_kernels<plait::hip::KernelTarget, plait::family::Kernel, \
                              plait::family::Args>(#family, plait::family::Types{});
