// What a kernel is on CUDA: functions of the file it was compiled in, because a kernel can only be launched from its own module.
#pragma once
#include <cuda_runtime_api.h>

#include "backends/kernel_table.hpp"
#include "backends/launch_types.hpp"

namespace plait::cuda {

struct CudaKernel {
  /// Launches on the current device.
  cudaError_t (*launch)(LaunchShape shape, const void* args, const Watch& watch, cudaStream_t stream);
  /// Loads the kernel onto the current device.
  cudaError_t (*load)();
};

/// The largest block that kernels are compiled for.
inline constexpr unsigned max_threads = 512;

}  // namespace plait::cuda

namespace plait {
template <>
KernelTable<cuda::CudaKernel>& KernelTable<cuda::CudaKernel>::instance();
}
