// What kernels and their launches need to know of CUDA.
#pragma once
#include <cuda_runtime_api.h>

#include "backends/gpu/gpu_kernels.hpp"

namespace plait::cuda {

struct Target {
  using Status = cudaError_t;
  using Stream = cudaStream_t;
  using Kernel = gpu::GpuKernel<Status, Stream>;

  /// Asking for a function's attributes loads it, also under lazy loading. `shared_bytes`: the most
  /// that a launch will ask for.
  static Status load(const void* function, std::size_t shared_bytes) {
    cudaFuncAttributes attributes;
    const Status status = cudaFuncGetAttributes(&attributes, function);
    const std::size_t all_shared =
        shared_bytes + attributes.sharedSizeBytes;  // what is declared in the kernel counts, too
    if (status != cudaSuccess || all_shared <= gpu::default_shared_bytes) return status;
    return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes));
  }

  static Status blocks_a_unit(int* blocks, const void* function, int threads,
                              std::size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
  }
};

}  // namespace plait::cuda

namespace plait {
template <>
KernelTable<cuda::Target::Kernel>& KernelTable<cuda::Target::Kernel>::instance();
}
