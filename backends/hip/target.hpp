// The HIP types and calls that kernels and their launches need.
#pragma once
#include "backends/gpu/gpu_kernels.hpp"
#include "backends/hip/api.hpp"

namespace plait::hip {

struct Target {
  using Status = hipError_t;
  using Stream = hipStream_t;
  using Kernel = gpu::GpuKernel<Status, Stream>;

  /// Querying a function's attributes loads it. `shared_bytes`: the most dynamic shared memory that
  /// a launch will use.
  static Status load(const void* function, std::size_t shared_bytes) {
    hipFuncAttributes attributes;
    const Status status = hipFuncGetAttributes(&attributes, function);
    // Shared memory that the kernel declares counts, too.
    const std::size_t all_shared = shared_bytes + attributes.sharedSizeBytes;
    if (status != hipSuccess || all_shared <= gpu::default_shared_bytes) return status;
    return hipFuncSetAttribute(function, hipFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes));
  }

  static Status blocks_per_multiprocessor(int* blocks, const void* function, int threads,
                                          std::size_t shared_bytes) {
    return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, threads, shared_bytes);
  }
};

}  // namespace plait::hip

namespace plait {
template <>
KernelTable<hip::Target::Kernel>& KernelTable<hip::Target::Kernel>::instance();
}
