// Compiles a kernel for the host and, where the compiler makes code for GPUs, for those.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "backends/host/instantiate.hpp"
#undef PLAIT_INSTANTIATE  // each target has its own
#if defined(__HIP__) || defined(__HIP_PLATFORM_NVIDIA__)
#include "backends/hip/instantiate.hpp"
#elif defined(__CUDACC__)
#include "backends/cuda/instantiate.cuh"
#endif

namespace plait {

template <class Kernel, class Args>
void add_for_all_targets(std::string_view name) {
  host::add_kernel<Kernel, Args>(name, DataType::u8);
#if defined(__HIP__) || defined(__HIP_PLATFORM_NVIDIA__)
  gpu::add_kernel<hip::KernelTarget, Kernel, Args>(name, DataType::u8);
#elif defined(__CUDACC__)
  gpu::add_kernel<cuda::KernelTarget, Kernel, Args>(name, DataType::u8);
#endif
}

}  // namespace plait
