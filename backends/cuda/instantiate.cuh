// Compiles a kernel family for CUDA.
#pragma once
#include "backends/cuda/ptx.hpp"
#include "backends/cuda/target.hpp"
#include "backends/gpu/instantiate.hpp"

namespace plait::cuda {
struct KernelTarget : Target {
  using Isa = Ptx;
};
}  // namespace plait::cuda

#define PLAIT_INSTANTIATE(family)    \
  static const bool family##_added = \
      plait::gpu::add_kernels<plait::cuda::KernelTarget, plait::family::Kernel, plait::family::Args>(#family, plait::family::Types{});
