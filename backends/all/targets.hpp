// Compiles a kernel for the host and, where the compiler makes code for GPUs, for those.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "backends/host/instantiate.hpp"
#include "plait/types.hpp"
#undef PLAIT_INSTANTIATE  // each target has its own
#if defined(__HIP__) || (defined(__CUDACC__) && defined(__HIP_PLATFORM_NVIDIA__))
#if !__has_include("backends/hip/instantiate.hpp")
#error "this Plait was not built for HIP (PLAIT_HIP=ON)"
#endif
#include "backends/hip/instantiate.hpp"
#define PLAIT_TARGETS for_hip
#elif defined(__CUDACC__)
#if !__has_include("backends/cuda/instantiate.cuh")
#error "this Plait was not built for CUDA (PLAIT_CUDA=ON)"
#endif
#include "backends/cuda/instantiate.cuh"
#define PLAIT_TARGETS for_cuda
#else
#define PLAIT_TARGETS for_host
#endif

namespace plait {
// A name of its own for each set of targets, so that files of two compilers may be linked.
inline namespace PLAIT_TARGETS {

#if defined(__HIP__) || (defined(__CUDACC__) && defined(__HIP_PLATFORM_NVIDIA__))
using GpuTarget = hip::KernelTarget;
#elif defined(__CUDACC__)
using GpuTarget = cuda::KernelTarget;
#endif

/// The kernels of all targets that this file is compiled for.
template <class Kernel, class Args>
class KernelOfTargets {
 public:
  /// Null: not compiled for it.
  static const void* of(BackendKind target) {
    if (target == BackendKind::host) return &host_;
#if defined(__HIP__) || defined(__CUDACC__)
    return &gpu_;
#else
    return nullptr;
#endif
  }
  /// So that communicators load it when they are made.
  static void add(std::string_view name) {
    host::add_kernel<Kernel, Args>(name, DataType::u8);
#if defined(__HIP__) || defined(__CUDACC__)
    gpu::add_kernel<GpuTarget, Kernel, Args>(name, DataType::u8);
#endif
  }

 private:
  static constexpr host::HostKernel host_ = host::run_kernel<Kernel, Args>;
#if defined(__HIP__) || defined(__CUDACC__)
  static inline const typename GpuTarget::Kernel gpu_ = gpu::kernel_of<GpuTarget, Kernel, Args>();
#endif
};

/// A kernel for one target that another library launches, in blocks of its own. On the host the
/// kernel is one block, which runs them all: `Kernel::run(words, args)`. On GPUs
/// `Kernel::launch<Words>(args, watch, stream)` launches it on the current device, where each
/// thread calls `Words::run`.
template <class Kernel, class Args, bool OnHost>
class KernelOfAnotherLibrary {
 public:
  static const void* of(BackendKind) { return &kernel_; }
  /// For the names of kernels.
  static void add(std::string_view name) {
    KernelTable<host::HostKernel>::instance().add(name, DataType::u8, nullptr);
  }

 private:
  static constexpr host::HostKernel kernel_ = host::run_kernel<Kernel, Args>;
};

#if defined(__HIP__) || defined(__CUDACC__)
template <class Kernel, class Args>
class KernelOfAnotherLibrary<Kernel, Args, false>
    : public KernelOfAnotherLibrary<Kernel, Args, true> {
 public:
  static const void* of(BackendKind) { return &kernel_; }

 private:
  using Status = typename GpuTarget::Status;
  static Status launch(LaunchShape, bool, const void* args, const Watch& watch,
                       typename GpuTarget::Stream stream) {
    Kernel::template launch<gpu::WordsOfTeams<typename GpuTarget::Isa>>(
        *static_cast<const Args*>(args), watch, stream);
    return {};
  }
  static Status load() { return {}; }
  static Status blocks_per_multiprocessor(int* blocks, unsigned, const void*) {
    *blocks = 1;
    return {};
  }
  static inline const typename GpuTarget::Kernel kernel_{launch, load, blocks_per_multiprocessor};
};
#endif

}  // namespace PLAIT_TARGETS
}  // namespace plait
