// What kernels and their launches need to know of HIP.
#pragma once
#include "backends/gpu/gpu_kernels.hpp"
#include "backends/hip/api.hpp"

namespace plait::hip {

struct Target {
  using Status = hipError_t;
  using Stream = hipStream_t;
  using Kernel = gpu::GpuKernel<Status, Stream>;

  /// Asking for a function's attributes loads it.
  static Status load(const void* function) {
    hipFuncAttributes attributes;
    return hipFuncGetAttributes(&attributes, function);
  }
};

}  // namespace plait::hip

namespace plait {
template <>
KernelTable<hip::Target::Kernel>& KernelTable<hip::Target::Kernel>::instance();
}
