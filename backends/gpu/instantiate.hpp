// Compiles a kernel family for a GPU and adds it to the target's table. For the compiler of kernels: nvcc, or clang for HIP.
#pragma once
#include "backends/gpu/gpu_kernels.hpp"
#include "backends/gpu/gpu_words.hpp"

namespace plait::gpu {

template <class Isa, class Kernel, class Args>
__global__ void __launch_bounds__(max_threads) entry(const PLAIT_KERNEL_PARAMETER Args args, const PLAIT_KERNEL_PARAMETER Watch watch) {
  Isa::begin();
  Words<Isa> words(watch);
  Kernel::run(words, args);
}

/// `Target` names the runtime: Status, Stream, Isa, Kernel (a GpuKernel), load(function), and
/// launch(kernel, shape, stream, args, watch).
template <class Target, class Kernel, class Args>
typename Target::Status launch(LaunchShape shape, const void* args, const Watch& watch, typename Target::Stream stream) {
  return Target::launch(entry<typename Target::Isa, Kernel, Args>, shape, stream, *static_cast<const Args*>(args), watch);
}

template <class Target, class Kernel, class Args>
typename Target::Status load() {
  return Target::load(reinterpret_cast<const void*>(&entry<typename Target::Isa, Kernel, Args>));
}

template <class Target, template <class> class Kernel, class Args, class... T>
bool add_kernels(const char* family, TypeList<T...>) {
  auto& table = KernelTable<typename Target::Kernel>::instance();
  (table.add(family, data_type_of<T>, {launch<Target, Kernel<T>, Args>, load<Target, Kernel<T>, Args>}), ...);
  return true;
}

}  // namespace plait::gpu
