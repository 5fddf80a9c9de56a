// Which of Plait's data types a view's value type is.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <Kokkos_Core.hpp>
#include <complex>
#include <cstddef>
#include <optional>
#include <type_traits>

#include "plait/types.hpp"

#if KOKKOS_VERSION < 30400
#error "plait/kokkos.hpp needs Kokkos 3.4 or newer"
#endif

namespace plait::kokkos {
namespace detail {

// Without 16-bit floats in Kokkos, as in a build without a GPU, these names are aliases of float.
#if KOKKOS_VERSION >= 40000
template <class T>
inline constexpr bool is_bhalf = std::is_same_v<T, Kokkos::Experimental::bhalf_t> && sizeof(T) == 2;
#else
template <class T>
inline constexpr bool is_bhalf = false;
#endif
template <class T>
inline constexpr bool is_half = std::is_same_v<T, Kokkos::Experimental::half_t> && sizeof(T) == 2;

/// `Twin<T>::type` has the layout of T, a type of Kokkos's, and a data type.
template <class T>
struct Twin {};
template <class T>
requires requires { DataTypeOf<std::complex<T>>::value; }
struct Twin<Kokkos::complex<T>> {
  using type = std::complex<T>;
  static_assert(sizeof(Kokkos::complex<T>) == sizeof(type) &&
                alignof(Kokkos::complex<T>) >= alignof(type));
};
template <class T>
requires requires { DataTypeOf<ValueIndex<T>>::value; }
struct Twin<Kokkos::ValLocScalar<T, int>> {
  using type = ValueIndex<T>;
  using Pair = Kokkos::ValLocScalar<T, int>;
  static_assert(sizeof(Pair) == sizeof(type) && alignof(Pair) == alignof(type));
  static_assert(offsetof(Pair, val) == offsetof(type, value) &&
                offsetof(Pair, loc) == offsetof(type, index));
};

template <class T>
constexpr std::optional<DataType> find_data_type() {
  if constexpr (requires { DataTypeOf<T>::value; }) return DataTypeOf<T>::value;
  else if constexpr (is_half<T>) return DataType::f16;
  else if constexpr (is_bhalf<T>) return DataType::bf16;
  else if constexpr (requires { typename Twin<T>::type; })
    return DataTypeOf<typename Twin<T>::type>::value;
  else return std::nullopt;
}

}  // namespace detail

/// True if a view of T can be passed: T is bool, an integer, float, double, Kokkos's half_t or
/// bhalf_t if they are 16-bit types, Kokkos::complex or std::complex of float or double, the value
/// type of Kokkos::MinLoc or MaxLoc with an index of type int and a value of type float, double,
/// int, long or long long, or a type that `plait::DataTypeOf` is specialised for, such as Plait's
/// own floats.
template <class T>
inline constexpr bool has_data_type = detail::find_data_type<T>().has_value();

/// The data type that a view of T is passed with.
template <class T>
requires has_data_type<T>
inline constexpr DataType data_type_of = *detail::find_data_type<T>();

}  // namespace plait::kokkos
