// Compiles a kernel family for the target that explores, and adds it to the target's table.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/kernel_table.hpp"
#include "backends/model/model_words.hpp"

namespace plait::model {

using ModelKernel = void (*)(KernelWords&, const void* args);

template <class Kernel, class Args>
void run_kernel(KernelWords& words, const void* given) {
  const Args& args = *static_cast<const Args*>(given);
  using Cases = KernelCases<Kernel, Args>;
  run_case(Cases::index(args), words, args, typename Cases::List{});
}

/// For f32, and for unsigned integers, as which other data travel. Protocols do not depend on types
/// beyond that.
template <template <class> class Kernel, class Args, class Entry>
void add_entry(const char* family) {
  using T = typename Listed<Entry>::Element;
  if constexpr (std::is_same_v<T, float> || std::is_unsigned_v<T>) {
    using K = Kernel<T>;
    auto& table = KernelTable<ModelKernel>::instance();
    for (const DataType type : Listed<Entry>::data_types) {
      table.add(family, type, run_kernel<K, Args>);
      if constexpr (requires { typename K::BatchArgs; }) {
        table.add(batch_family(family), type, run_kernel<K, typename K::BatchArgs>);
      }
    }
  }
}
template <template <class> class Kernel, class Args, class... Entry>
bool add_kernels(const char* family, TypeList<Entry...>) {
  (add_entry<Kernel, Args, Entry>(family), ...);
  return true;
}

}  // namespace plait::model

namespace plait {
template <>
KernelTable<model::ModelKernel>& KernelTable<model::ModelKernel>::instance();
}

#define PLAIT_INSTANTIATE(family)                                            \
  static const bool family##_added =                                         \
      plait::model::add_kernels<plait::family::Kernel, plait::family::Args>( \
          #family, plait::family::Types{});
