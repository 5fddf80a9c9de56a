// Which of Plait's data types a view's value type is.
#pragma once
#include <Kokkos_Core.hpp>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "plait/types.hpp"

#if KOKKOS_VERSION < 30400
#error "plait/kokkos.hpp needs Kokkos 3.4 or newer"
#endif

namespace plait::kokkos {
namespace detail {

// Where Kokkos has no 16-bit floats of its own, as without a GPU, these names are other words for
// float.
#if KOKKOS_VERSION >= 40000
template <class T>
inline constexpr bool is_bhalf = std::is_same_v<T, Kokkos::Experimental::bhalf_t> && sizeof(T) == 2;
#else
template <class T>
inline constexpr bool is_bhalf = false;
#endif
template <class T>
inline constexpr bool is_half = std::is_same_v<T, Kokkos::Experimental::half_t> && sizeof(T) == 2;

template <class T>
constexpr std::optional<DataType> find_data_type() {
  if constexpr (requires { DataTypeOf<T>::value; }) return DataTypeOf<T>::value;
  else if constexpr (is_half<T>) return DataType::f16;
  else if constexpr (is_bhalf<T>) return DataType::bf16;
  else return std::nullopt;
}

}  // namespace detail

/// Whether a view of T can be passed: integers of 8, 32 and 64 bits by whatever name, float,
/// double, Kokkos's half_t and bhalf_t where they are 16-bit types, Plait's own floats, and what
/// `plait::DataTypeOf` is specialised for. Not Kokkos::complex, short or bool.
template <class T>
inline constexpr bool has_data_type = detail::find_data_type<T>().has_value();

/// The data type that a view of T is passed with.
template <class T>
requires has_data_type<T>
inline constexpr DataType data_type_of = *detail::find_data_type<T>();

}  // namespace plait::kokkos
