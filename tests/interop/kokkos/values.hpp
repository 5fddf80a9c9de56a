// The elements of the views in these tests: small integers, exact in every type.
#pragma once
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "world.hpp"

namespace plait::test {

template <class T>
concept ComplexNumber = requires(const T& z) {
  z.real();
  z.imag();
};

/// Complex numbers have unequal parts, in proportion to the number.
template <class T>
T value(unsigned number) {
  if constexpr (std::is_same_v<T, bf16>) {
    return {
        static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16)};
  } else if constexpr (std::is_same_v<T, f16>) {
    if (number == 0) return {0};
    const auto exponent = static_cast<unsigned>(std::bit_width(number)) - 1;
    return {
        static_cast<std::uint16_t>((exponent + 15) << 10 | ((number << 10 >> exponent) & 1023))};
  } else if constexpr (ComplexNumber<T>) {
    using Part = typename T::value_type;
    return T(static_cast<Part>(number), static_cast<Part>(3 * number));
  } else {
    return static_cast<T>(number);
  }
}
template <class T>
bool is(const T& element, unsigned number) {
  const T expected = value<T>(number);
  if constexpr (std::is_class_v<T> && !ComplexNumber<T>) return element.bits == expected.bits;
  else return element == expected;
}

/// The number that rank `r` has at place `i` of its memory: 1 to 13.
inline unsigned element(std::size_t r, std::size_t i) {
  std::uint64_t hash = (r + 1) * 0xaf251af3b0f025b5u + i;
  hash = (hash ^ (hash >> 32)) * 0xd6e8feb86659fd93u;
  return static_cast<unsigned>((hash ^ (hash >> 32)) % 13 + 1);
}
inline unsigned sum_of_first(std::size_t terms, std::size_t i) {
  unsigned total = 0;
  for (std::size_t r = 0; r < terms; ++r) total += element(r, i);
  return total;
}
inline unsigned sum(std::size_t i) { return sum_of_first(ranks(), i); }

/// The numbers that a view must have, by place.
using Expected = std::function<unsigned(std::size_t)>;
/// Those of rank `r`'s memory from `begin`.
inline Expected of(std::size_t r, std::size_t begin = 0) {
  return [=](std::size_t i) { return element(r, begin + i); };
}
inline Expected own() { return of(rank()); }

// Numbers a view's elements in the order of memory, whatever its extents.
template <class View>
void fill(const View& view) {
  for (std::size_t i = 0; i < view.size(); ++i)
    view.data()[i] = value<typename View::value_type>(element(rank(), i));
}
template <class View>
void expect(const View& view, const char* what, const Expected& expected) {
  for (std::size_t i = 0; i < view.size(); ++i)
    ASSERT_TRUE(is(view.data()[i], expected(i)))
        << what << ", rank " << rank() << ", element " << i << " of " << view.size();
}

template <class T, std::size_t dimensions>
struct DataOf {
  using type = std::remove_pointer_t<typename DataOf<T, dimensions + 1>::type>;
};
template <class T>
struct DataOf<T, 4> {
  using type = T****;
};

/// A view whose slowest extent is `times` that of a block.
template <class T, std::size_t dimensions, class Layout>
auto make(const std::string& label, std::size_t times = 1) {
  Layout layout;
  const std::array<std::size_t, 4> extents{2, 3, 2, 5};
  for (std::size_t i = 0; i < dimensions; ++i) layout.dimension[i] = extents[i];
  if (dimensions > 0) layout.dimension[std::is_same_v<Layout, Left> ? dimensions - 1 : 0] *= times;
  return Kokkos::View<typename DataOf<T, dimensions>::type, Layout, Kokkos::HostSpace>(label,
                                                                                       layout);
}

template <class View>
typename View::const_type constant(const View& view) {
  return view;
}

/// Numbers a matrix by rank, row and column.
template <class View>
void number(const View& view) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < view.extent(1); ++j)
      view(i, j) = static_cast<int>(100 * rank() + 10 * i + j);
}

}  // namespace plait::test
