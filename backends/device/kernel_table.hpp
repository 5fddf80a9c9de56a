// The kernels that are compiled into this process for one target: (family, data type) -> `Code`,
// the type that the target uses for its kernels.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plait/types.hpp"

namespace plait {

template <class Code>
class KernelTable {
 public:
  using Key = std::pair<std::string, DataType>;

  static KernelTable& instance();  // each target defines it in its .cpp

  void add(std::string_view family, DataType type, const Code& code) {
    table_[{std::string(family), type}] = code;
  }
  const Code* find(std::string_view family, DataType type) const {
    const auto it = table_.find({std::string(family), type});
    return it == table_.end() ? nullptr : &it->second;
  }
  template <class Function>
  void for_each(Function function) const {
    for (const auto& [key, code] : table_) function(key, code);
  }

 private:
  std::map<Key, Code> table_;
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

/// The codes that a kernel is compiled to for these arguments. Without `Kernel::code(args)` that is
/// the kernel itself. Otherwise it is each type of `using Codes = TypeList<...>`, and `code(args)`
/// is the index of the one that a launch takes. Each code gets the registers that it needs; a
/// single kernel with a branch inside would allocate the most that any branch needs (direct_ll, 2
/// H200: 16 KB in 2.60 us instead of 2.86; 2026-11-22).
template <class Kernel, class Args>
struct KernelCodes {
  using List = TypeList<Kernel>;
  static unsigned index(const Args&) { return 0; }
};
template <class Kernel, class Args>
requires requires(const Args& args) { Kernel::code(args); }
struct KernelCodes<Kernel, Args> {
  using List = typename Kernel::Codes;
  static unsigned index(const Args& args) { return Kernel::code(args); }
};

/// The codes for the host target. A kernel whose `Codes` pay on GPUs alone names fewer in
/// `OnHost`, which has the members of KernelCodes: they compile sooner and give a smaller library.
template <class Kernel, class Args>
struct HostCodes : KernelCodes<Kernel, Args> {};
template <class Kernel, class Args>
requires requires { typename Kernel::OnHost; }
struct HostCodes<Kernel, Args> : Kernel::OnHost {};

}  // namespace plait
