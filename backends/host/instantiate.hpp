// Compiles a kernel family for the host target and adds it to the target's table.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/untyped.hpp"
#include "backends/host/host_kernels.hpp"
#include "backends/host/host_words.hpp"

namespace plait::host {

template <class Kernel, class Args>
void run_kernel(KernelWords& words, const void* given) {
  const Args& args = *static_cast<const Args*>(given);
  using Cases = HostCases<Kernel, Args>;
  run_case(Cases::index(args), words, args, typename Cases::List{});
}
template <class Kernel, class Args>
void add_kernel(std::string_view family, DataType type) {
  KernelTable<HostKernel>::instance().add(family, type, run_kernel<Kernel, Args>);
}

template <template <class> class Kernel, class Args, class Entry>
void add_with_batch(const char* family) {
  using K = Kernel<typename Listed<Entry>::Element>;
  for (const DataType type : Listed<Entry>::data_types) {
    add_kernel<K, Args>(family, type);
    if constexpr (requires { typename K::BatchArgs; }) {
      add_kernel<K, typename K::BatchArgs>(batch_family(family), type);
    }
  }
}

template <template <class> class Kernel, class Args, class... Entry>
bool add_kernels(const char* family, TypeList<Entry...>) {
  (add_with_batch<Kernel, Args, Entry>(family), ...);
  return true;
}

/// One kernel for all types of the list, whose arguments count bytes.
template <class Kernel, class Args>
[[gnu::noinline]] void run_untyped(KernelWords& words, const Args& args) {
  using Cases = HostCases<Kernel, Args>;
  run_case(Cases::index(args), words, args, typename Cases::List{});
}
template <template <class> class Kernel, class Args, class Entry>
void add_untyped(const char* family) {
  for (const DataType type : Listed<Entry>::data_types)
    KernelTable<HostKernel>::instance().add(
        family, type, [](KernelWords& words, const void* given) {
          Args args = *static_cast<const Args*>(given);
          if constexpr (requires { args.count_bytes(1); }) {
            args.count_bytes(sizeof(typename Listed<Entry>::Element));
          }
          run_untyped<Kernel<Untyped>>(words, args);
        });
}
template <template <class> class Kernel, class Args, class... Entry>
bool add_kernels(const char* family, InRuns<TypeList<Entry...>>) {
  (add_untyped<Kernel, Args, Entry>(family), ...);
  return true;
}

}  // namespace plait::host

#define PLAIT_INSTANTIATE(family)                                           \
  static const bool family##_added =                                        \
      plait::host::add_kernels<plait::family::Kernel, plait::family::Args>( \
          #family, plait::family::Types{});
