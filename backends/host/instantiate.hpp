// Compiles a kernel family for the host target and adds it to the target's table.
#pragma once
#include "backends/host/host_kernels.hpp"
#include "backends/host/host_words.hpp"

namespace plait::host {

template <template <class> class Kernel, class Args, class... T>
bool add_kernels(const char* family, TypeList<T...>) {
  (KernelTable<HostKernel>::instance().add(family, data_type_of<T>,
                                           [](Words& words, const void* args) { Kernel<T>::run(words, *static_cast<const Args*>(args)); }),
   ...);
  return true;
}

}  // namespace plait::host

#define PLAIT_INSTANTIATE(family) \
  static const bool family##_added = plait::host::add_kernels<plait::family::Kernel, plait::family::Args>(#family, plait::family::Types{});
