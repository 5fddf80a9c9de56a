// What kernels and their launches need to know of CUDA.
#pragma once
#include <cuda_runtime_api.h>

#include "backends/gpu/gpu_kernels.hpp"

namespace plait::cuda {

struct Target {
  using Status = cudaError_t;
  using Stream = cudaStream_t;
  using Kernel = gpu::GpuKernel<Status, Stream>;

  /// Asking for a function's attributes loads it, also under lazy loading.
  static Status load(const void* function) {
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, function);
  }
};

}  // namespace plait::cuda

namespace plait {
template <>
KernelTable<cuda::Target::Kernel>& KernelTable<cuda::Target::Kernel>::instance();
}
