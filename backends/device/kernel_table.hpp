// The kernels that are compiled into this process for one target: (family, data type) -> `Entry`,
// the type that the target uses for its kernels.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plait/types.hpp"

namespace plait {

/// Thread-safe.
template <class Entry>
class KernelTable {
 public:
  using Key = std::pair<std::string, DataType>;

  static KernelTable& instance();  // each target defines it in its .cpp

  void add(std::string_view family, DataType type, const Entry& entry) {
    const std::unique_lock lock(mutex_);
    table_[{std::string(family), type}] = entry;
  }
  const Entry* find(std::string_view family, DataType type) const {
    const std::shared_lock lock(mutex_);
    const auto it = table_.find({std::string(family), type});
    return it == table_.end() ? nullptr : &it->second;
  }
  template <class Function>
  void for_each(Function function) const {
    const std::shared_lock lock(mutex_);
    for (const auto& [key, entry] : table_) function(key, entry);
  }

 private:
  mutable std::shared_mutex mutex_;  // a library may be loaded at any time, with its kernels
  std::map<Key, Entry> table_;
};

/// The name of the kernel that handles many messages in one launch. A family has one if its
/// `Kernel<T>` names the arguments, `BatchArgs`.
inline std::string batch_family(std::string_view family) { return std::string(family) + "_batch"; }

/// A list of element types. Every kernel.hpp names the types that it is compiled for: `using Types
/// = ReducedTypes;`.
template <class... T>
struct TypeList {};
template <class First, class Second>
struct Concatenation;
template <class... First, class... Second>
struct Concatenation<TypeList<First...>, TypeList<Second...>> {
  using List = TypeList<First..., Second...>;
};
template <class First, class Second>
using Concatenated = typename Concatenation<First, Second>::List;

/// Entry of a list of types: T and the signed integer of equal size. `Kernel<T>` serves both.
template <std::unsigned_integral T>
struct EitherSign {};

/// All data types but the rare ones (pair.hpp), for kernels that leave all arithmetic to
/// `Reducer<T>`. It distinguishes signed from unsigned integers at run time (Reduction), so signed
/// integers, a quarter of these types, compile no kernels.
using ReducedTypes = TypeList<EitherSign<std::uint8_t>, EitherSign<std::uint32_t>,
                              EitherSign<std::uint64_t>, f16, bf16, f8e4m3, f8e5m2, float, double>;

/// A list for kernels that leave all sums to runs (backends/device/untyped.hpp): the host compiles
/// one kernel for all of its types.
template <class List>
struct InRuns;
template <class... T>
struct InRuns<TypeList<T...>> : TypeList<T...> {};

/// For an entry of a list: the T of the `Kernel<T>` that is compiled for it, and the data types
/// that this kernel serves.
template <class T>
struct Listed {
  using Element = T;
  static constexpr std::array data_types{data_type_of<T>};
};
template <class T>
struct Listed<EitherSign<T>> {
  using Element = T;
  static constexpr std::array data_types{data_type_of<T>, data_type_of<std::make_signed_t<T>>};
};

/// The cases that a kernel is compiled for. A kernel without `Kernel::case_of(args)` has one:
/// itself. Otherwise each type of `using Cases = TypeList<...>` is compiled, and `case_of(args)` is
/// the index of the one that a launch runs. Each case gets the registers that it needs; a single
/// kernel with a branch inside would allocate the most that any branch needs (direct_ll, 2 H200: 16
/// KB in 2.60 us instead of 2.86; 2026-11-22).
template <class Kernel, class Args>
struct KernelCases {
  using List = TypeList<Kernel>;
  static unsigned index(const Args&) { return 0; }
};
template <class Kernel, class Args>
requires requires(const Args& args) { Kernel::case_of(args); }
struct KernelCases<Kernel, Args> {
  using List = typename Kernel::Cases;
  static unsigned index(const Args& args) { return Kernel::case_of(args); }
};

/// Runs the case of this index, on targets whose threads are the host's.
template <class Words, class Args, class... Case>
void run_case(unsigned index, Words& words, const Args& args, TypeList<Case...>) {
  unsigned i = 0;
  ((i++ == index ? Case::run(words, args) : void()), ...);
}

/// The cases for the host target. A kernel whose `Cases` pay only on GPUs names fewer in `OnHost`,
/// which has the members of KernelCases. Fewer cases compile sooner and make a smaller library.
template <class Kernel, class Args>
struct HostCases : KernelCases<Kernel, Args> {};
template <class Kernel, class Args>
requires requires { typename Kernel::OnHost; }
struct HostCases<Kernel, Args> : Kernel::OnHost {};

}  // namespace plait
