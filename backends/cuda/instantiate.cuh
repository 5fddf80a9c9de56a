// Compiles a kernel family for CUDA and adds it to the target's table.
#pragma once
#include "backends/cuda/cuda_kernels.hpp"
#include "backends/cuda/cuda_words.hpp"

namespace plait::cuda {

template <class Kernel, class Args>
__global__ void __launch_bounds__(max_threads) entry(const __grid_constant__ Args args, const __grid_constant__ Watch watch) {
  Words words(watch);
  Kernel::run(words, args);
}

template <class Kernel, class Args>
cudaError_t launch(LaunchShape shape, const void* args, const Watch& watch, cudaStream_t stream) {
  entry<Kernel, Args><<<shape.blocks, shape.threads, 0, stream>>>(*static_cast<const Args*>(args), watch);
  return cudaGetLastError();
}

/// Asking for a function's attributes loads it, also under lazy loading.
template <class Kernel, class Args>
cudaError_t load() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&entry<Kernel, Args>));
}

template <template <class> class Kernel, class Args, class... T>
bool add_kernels(const char* family, TypeList<T...>) {
  (KernelTable<CudaKernel>::instance().add(family, data_type_of<T>, {launch<Kernel<T>, Args>, load<Kernel<T>, Args>}), ...);
  return true;
}

}  // namespace plait::cuda

#define PLAIT_INSTANTIATE(family) \
  static const bool family##_added = plait::cuda::add_kernels<plait::family::Kernel, plait::family::Args>(#family, plait::family::Types{});
