// The CUDA types and calls that kernels and their launches need.
#pragma once
#include <cuda_runtime_api.h>

#include "backends/gpu/gpu_kernels.hpp"

namespace plait::cuda {

struct Target {
  using Status = cudaError_t;
  using Stream = cudaStream_t;
  using Kernel = gpu::GpuKernel<Status, Stream>;

  /// Querying a function's attributes loads it, even under lazy loading. `shared_bytes`: the most
  /// dynamic shared memory that a launch will use.
  static Status load(const void* function, std::size_t shared_bytes) {
    cudaFuncAttributes attributes;
    const Status status = cudaFuncGetAttributes(&attributes, function);
    // Shared memory that the kernel declares counts, too.
    const std::size_t all_shared = shared_bytes + attributes.sharedSizeBytes;
    if (status != cudaSuccess || all_shared <= gpu::default_shared_bytes) return status;
    return cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                static_cast<int>(shared_bytes));
  }

  static Status blocks_per_multiprocessor(int* blocks, const void* function, int threads,
                                          std::size_t shared_bytes) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
  }
};

}  // namespace plait::cuda

namespace plait {
template <>
KernelTable<cuda::Target::Kernel>& KernelTable<cuda::Target::Kernel>::instance();
}
