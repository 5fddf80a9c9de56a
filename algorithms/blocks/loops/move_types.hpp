// Kernels that only move elements are compiled for one type of each size: `Types = MoveTypes`.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <type_traits>

#include "backends/device/kernel_table.hpp"
#include "plait/types.hpp"

namespace plait {

using MoveTypes = TypeList<std::uint8_t, f16, std::uint32_t, std::uint64_t>;

template <class T, class... Moved>
constexpr bool is_one_of(TypeList<Moved...>) {
  return (std::is_same_v<T, Moved> || ...);
}
template <class T>
inline constexpr bool is_moved = is_one_of<T>(MoveTypes());

/// The type of `MoveTypes` for elements of this size.
constexpr DataType move_type(std::size_t bytes) {
  return bytes == 1   ? DataType::u8
         : bytes == 2 ? DataType::f16
         : bytes == 4 ? DataType::u32
                      : DataType::u64;
}
inline DataType move_type(DataType type) { return move_type(size_of(type)); }

}  // namespace plait
