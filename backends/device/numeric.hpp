// Arithmetic on the element types with the same bits on every target: conversions of the small
// floats, accumulation types and the reduction operations. A target may replace a conversion by its
// own instruction if that gives the same bits; tests/unit/conversions_test.cpp compares the two.
// docs/floating-point.md has the rules for NaNs, subnormal numbers and averages.
//
// On the CPU, `narrow` and the operations are correct in the default floating-point environment, in
// which Plait's kernels run (core/float_environment.hpp). `widen` is correct in any environment.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/target.hpp"
#include "plait/types.hpp"

#if defined(__CUDA_ARCH__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace plait {

template <class To, class From>
PLAIT_ELEMENT To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

/// Conversions between f32 and a binary float of 1 sign bit, `Exponent` and `Mantissa` bits,
/// rounding to nearest even. `Finite` formats (E4M3) have no infinity: their largest code is NaN,
/// and numbers that are too large become NaN.
template <class Storage, int Exponent, int Mantissa, bool Finite>
struct SmallFloat {
  static constexpr std::uint32_t bias = (1u << (Exponent - 1)) - 1;
  static constexpr std::uint32_t sign_bit = 1u << (Exponent + Mantissa);
  static constexpr std::uint32_t exponent_max = (1u << Exponent) - 1;
  static constexpr std::uint32_t nan = sign_bit - 1;  // all ones below the sign
  /// The code that numbers beyond the largest become.
  static constexpr std::uint32_t overflow = Finite ? nan : exponent_max << Mantissa;
  static constexpr std::uint32_t largest = Finite ? nan - 1 : overflow - 1;
  /// The least normal number, as the bits of an f32.
  static constexpr std::uint32_t lowest = (127u - bias + 1) << 23;
  /// The first f32 that overflows: the midpoint between the largest number and the number that
  /// would follow it if that tie rounds up, else the next f32.
  static constexpr std::uint32_t first_too_large =
      ((largest + ((127u - bias) << Mantissa)) << (23 - Mantissa)) + (1u << (22 - Mantissa)) +
      (largest % 2 == 0 ? 1 : 0);

  PLAIT_ELEMENT static float widen(Storage storage) {
    const std::uint32_t bits = storage;
    const std::uint32_t sign = (bits & sign_bit) << (31 - Exponent - Mantissa);
    const std::uint32_t magnitude = bits & (sign_bit - 1);
    // Moving the fields into place leaves the exponent too small by the difference of the biases. A
    // subnormal number instead becomes the fraction of the least normal number, which is then
    // subtracted again. That difference is exact and its operands are normal, so it depends neither
    // on the rounding mode (except for the sign of a zero) nor on whether subnormal numbers are
    // flushed.
    const std::uint32_t shifted = magnitude << (23 - Mantissa);
    const std::uint32_t fraction =
        bits_as<std::uint32_t>(bits_as<float>(lowest + shifted) - bits_as<float>(lowest)) &
        0x7fffffffu;
    const std::uint32_t normal = ((127u - bias) << 23) + shifted;
    const std::uint32_t number = magnitude < (1u << Mantissa) ? fraction : normal;
    // From `overflow` on: infinity or a NaN.
    return bits_as<float>(sign | (magnitude < overflow ? number : 0x7f800000u | shifted));
  }

  PLAIT_ELEMENT static Storage narrow(float value) {
    const std::uint32_t bits = bits_as<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> (31 - Exponent - Mantissa)) & sign_bit;
    const std::uint32_t all = bits & 0x7fffffffu;
    const std::uint32_t magnitude = all < first_too_large ? all : first_too_large;
    // The f32 adder rounds to the spacing of the numbers with this exponent, or to that of the
    // subnormal numbers if it is wider, and counts the spacings in the number: up to 2^(Mantissa +
    // 1). Each exponent above the lowest has 2^Mantissa more codes before it.
    const std::uint32_t exponent = magnitude & 0x7f800000u,
                        raised = exponent > lowest ? exponent : lowest;
    const std::uint32_t magic = raised + ((23u - Mantissa) << 23);
    static_assert((first_too_large >> 23) + 23 - Mantissa < 255, "a power of two that f32 has");
    const std::uint32_t spacings =
        bits_as<std::uint32_t>(bits_as<float>(magnitude) + bits_as<float>(magic)) - magic;
    const std::uint32_t number = ((raised - lowest) >> (23 - Mantissa)) + spacings;
    const bool is_nan = all > 0x7f800000u || (Finite && number == nan);
    return static_cast<Storage>(is_nan ? nan : sign | number);
  }
};

using E4M3 = SmallFloat<std::uint8_t, 4, 3, true>;
using E5M2 = SmallFloat<std::uint8_t, 5, 2, false>;

PLAIT_ELEMENT float widen(f16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#elif defined(__AMDGCN__)
  return static_cast<float>(bits_as<_Float16>(x.bits));
#else
  return SmallFloat<std::uint16_t, 5, 10, false>::widen(x.bits);
#endif
}
PLAIT_ELEMENT float widen(bf16 x) { return bits_as<float>(std::uint32_t{x.bits} << 16); }
PLAIT_ELEMENT float widen(f8e4m3 x) { return E4M3::widen(x.bits); }
/// The code is the upper half of a binary16.
PLAIT_ELEMENT float widen(f8e5m2 x) { return widen(f16{static_cast<std::uint16_t>(x.bits << 8)}); }
template <class T>
requires std::is_arithmetic_v<T> PLAIT_ELEMENT T widen(T x) { return x; }

/// The only NaN in f32 and f64 results: all ones below the sign. NVIDIA GPUs give this pattern to
/// NaNs of f32, f16 and 8-bit floats themselves.
template <class A>
PLAIT_ELEMENT A with_one_nan(A x) {
  if constexpr (std::is_same_v<A, float>) {
    return x == x ? x : bits_as<float>(0x7fffffffu);
  } else if constexpr (std::is_same_v<A, double>) {
    return x == x ? x : bits_as<double>(std::uint64_t{0x7fffffffffffffffu});
  } else {
    return x;
  }
}

/// Copies adjacent elements. On the CPU as a whole: g++ 12 does not keep elements in vectors if
/// they are copied one by one.
template <class A, std::size_t Count>
PLAIT_ELEMENT void copy_lanes(const A (&from)[Count], A (&to)[Count]) {
#if defined(__CUDACC__) || defined(__HIP__)
  PLAIT_UNROLL
  for (std::size_t i = 0; i < Count; ++i) to[i] = from[i];
#else
  __builtin_memcpy(to, from, sizeof(to));
#endif
}

/// `with_one_nan` for adjacent elements. On the CPU in vectors of 16 bytes: g++ 12 would unroll the
/// loop and then branch for each element, which takes 1.5 times as long (f32; EPYC, 2026-11-24).
template <class A, std::size_t Count>
PLAIT_ELEMENT void with_one_nan(const A (&from)[Count], A (&to)[Count]) {
#if !defined(__CUDACC__) && !defined(__HIP__)
  if constexpr (std::is_floating_point_v<A> && Count * sizeof(A) % 16 == 0) {
    using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
    using Numbers [[gnu::vector_size(16)]] = A;
    using Masks [[gnu::vector_size(16)]] = Bits;
    for (std::size_t i = 0; i < Count; i += 16 / sizeof(A)) {
      Numbers x;
      __builtin_memcpy(&x, from + i, sizeof(x));
      const Masks is_number = bits_as<Masks>(x == x);
      const Masks bits = (bits_as<Masks>(x) & is_number) | ((~Bits{0} >> 1) & ~is_number);
      __builtin_memcpy(to + i, &bits, sizeof(bits));
    }
    return;
  }
#endif
  PLAIT_UNROLL
  for (std::size_t i = 0; i < Count; ++i) to[i] = with_one_nan(from[i]);
}

/// Rounds to T. A NaN becomes the type's only NaN, all ones below the sign. The bits of a NaN that
/// an operation returns depend on the order of its operands, which compilers exchange freely, so
/// ranks that compute the same sum could get different bits.
template <class T>
PLAIT_ELEMENT T narrow(std::type_identity_t<decltype(widen(T{}))> x) {
  if constexpr (std::is_same_v<T, f16>) {
#if defined(__CUDA_ARCH__)
    return {__half_as_ushort(__float2half_rn(x))};
#elif defined(__AMDGCN__)
    // Kernels start in the mode that rounds to nearest even.
    const auto rounded = bits_as<std::uint16_t>(static_cast<_Float16>(x));
    return {static_cast<std::uint16_t>(x == x ? rounded : 0x7fffu)};
#else
    return {SmallFloat<std::uint16_t, 5, 10, false>::narrow(x)};
#endif
  } else if constexpr (std::is_same_v<T, bf16>) {
#if defined(__CUDA_ARCH__)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    const std::uint32_t bits = bits_as<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {static_cast<std::uint16_t>(x != x ? 0x7fffu : rounded)};
#endif
  } else if constexpr (std::is_same_v<T, f8e4m3>) {
    return {E4M3::narrow(x)};
  } else if constexpr (std::is_same_v<T, f8e5m2>) {
    return {E5M2::narrow(x)};
  } else {
    return with_one_nan(x);
  }
}

/// The type that elements of T are summed in.
template <class T>
using Accumulated = decltype(widen(T{}));

// Two 8-bit floats at once (`converted_in_pairs`): sm_89 and newer convert 8-bit floats only in
// pairs.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <class T>
inline constexpr bool converted_in_pairs = std::is_same_v<T, f8e4m3> || std::is_same_v<T, f8e5m2>;

PLAIT_ELEMENT void widen_pair(f8e4m3 low, f8e4m3 high, float& low_out, float& high_out) {
  const auto codes = static_cast<std::uint16_t>(low.bits | high.bits << 8);
  std::uint32_t halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
  low_out = widen(f16{static_cast<std::uint16_t>(halves)});
  high_out = widen(f16{static_cast<std::uint16_t>(halves >> 16)});
}
PLAIT_ELEMENT void widen_pair(f8e5m2 low, f8e5m2 high, float& low_out, float& high_out) {
  low_out = widen(low);
  high_out = widen(high);
}

/// The instructions saturate, and a NaN keeps its code. A number that is too large gets the code
/// after the largest number's in e5m2, with its sign, and the only NaN in e4m3.
template <class T>
requires converted_in_pairs<T> PLAIT_ELEMENT void narrow_pair(float low, float high, T& low_out,
                                                              T& high_out) {
  std::uint16_t codes;
  if constexpr (std::is_same_v<T, f8e4m3>) {
    static_assert(E4M3::overflow == E4M3::nan);
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    const float limit = bits_as<float>(E4M3::first_too_large);
    low_out.bits = static_cast<std::uint8_t>(fabsf(low) >= limit ? E4M3::nan : codes);
    high_out.bits = static_cast<std::uint8_t>(fabsf(high) >= limit ? E4M3::nan : codes >> 8);
  } else {
    static_assert(E5M2::overflow == E5M2::largest + 1);
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(high), "f"(low));
    const float limit = bits_as<float>(E5M2::first_too_large);
    low_out.bits = static_cast<std::uint8_t>(codes + (fabsf(low) >= limit ? 1 : 0));
    high_out.bits = static_cast<std::uint8_t>((codes >> 8) + (fabsf(high) >= limit ? 1 : 0));
  }
}
#else
template <class T>
inline constexpr bool converted_in_pairs = false;
#endif

/// Rounds two numbers to 16-bit floats at once, where that is one fast instruction instead of two
/// slow ones. A NaN becomes the type's only one.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <class T>
inline constexpr bool rounded_in_pairs = std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

template <class T>
requires rounded_in_pairs<T> PLAIT_ELEMENT void narrow_pair(float low, float high, T& low_out,
                                                            T& high_out) {
  std::uint32_t both;
  if constexpr (std::is_same_v<T, f16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  }
  low_out.bits = static_cast<std::uint16_t>(both);
  high_out.bits = static_cast<std::uint16_t>(both >> 16);
}
#else
template <class T>
inline constexpr bool rounded_in_pairs = false;
#endif

/// One step of a reduction in the accumulation type. Integers wrap.
template <class A>
PLAIT_ELEMENT A reduce_sum(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    using Unsigned = std::make_unsigned_t<A>;
    return static_cast<A>(
        static_cast<Unsigned>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b)));
  } else {
    return a + b;
  }
}
/// Operations on all lanes of a 32-bit word at once. Each lane is an integer of type A.
template <class A>
struct LanesInWord {
  static constexpr unsigned bits = 8 * sizeof(A);
  static constexpr std::uint32_t high = sizeof(A) == 1 ? 0x80808080u : 0x80008000u;

  /// A carry would go over the highest bit of a lane, so that bit is added without one.
  PLAIT_ELEMENT static constexpr std::uint32_t sum(std::uint32_t a, std::uint32_t b) {
    return ((a & ~high) + (b & ~high)) ^ ((a ^ b) & high);
  }
  /// 1 in lanes that are not 0.
  PLAIT_ELEMENT static constexpr std::uint32_t are_set(std::uint32_t a) {
    return ((((a & ~high) + ~high) | a) & high) >> (bits - 1);
  }
  /// All bits of the lanes in which a >= b, as unsigned numbers. The difference without the highest
  /// bits has that bit where it is not negative.
  PLAIT_ELEMENT static constexpr std::uint32_t are_not_less(std::uint32_t a, std::uint32_t b) {
    const std::uint32_t rest = (a | high) - (b & ~high),
                        found = ((a & ~b) | (~(a ^ b) & rest)) & high;
    return (found << 1) - (found >> (bits - 1));
  }
};

#if defined(__CUDACC__)
/// Whether `Count` adjacent integers are combined as words. Combined one by one, each takes a
/// register, and sums of bytes by `twoshot` spilled 1.6 KB. (clang for AMD GPUs keeps words of
/// `rails_ring` in memory instead.)
template <class A, std::size_t Count>
inline constexpr bool taken_as_words = std::is_unsigned_v<A> &&
                                       sizeof(A) < 4 && Count * sizeof(A) % 4 == 0;
#else
template <class A, std::size_t Count>
inline constexpr bool taken_as_words = false;
#endif

/// Sets each integer, or each word of them (`taken_as_words`), to `op` of itself and its term.
template <class A, std::size_t Count, class Op>
PLAIT_ELEMENT void combine_lanes(A (&lanes)[Count], const A (&terms)[Count], Op op) {
  if constexpr (taken_as_words<A, Count>) {
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Count; i += 4 / sizeof(A)) {
      std::uint32_t a, b;
      __builtin_memcpy(&a, lanes + i, 4);
      __builtin_memcpy(&b, terms + i, 4);
      a = op(a, b);
      __builtin_memcpy(lanes + i, &a, 4);
    }
  } else {
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Count; ++i) lanes[i] = static_cast<A>(op(lanes[i], terms[i]));
  }
}

/// `reduce_sum` for adjacent elements. On the CPU in vectors of 16 bytes: otherwise g++ 12 keeps
/// some lanes of a pack in scalars and moves them to vectors and back one by one.
template <class A, std::size_t Count>
PLAIT_ELEMENT void add_lanes(A (&sum)[Count], const A (&term)[Count]) {
#if !defined(__CUDACC__) && !defined(__HIP__)
  if constexpr (Count * sizeof(A) % 16 == 0) {
    using Wrapping = typename std::conditional_t<std::is_integral_v<A>, std::make_unsigned<A>,
                                                 std::type_identity<A>>::type;
    using Numbers [[gnu::vector_size(16)]] = Wrapping;
    for (std::size_t i = 0; i < Count; i += 16 / sizeof(A)) {
      Numbers a, b;
      __builtin_memcpy(&a, sum + i, sizeof(a));
      __builtin_memcpy(&b, term + i, sizeof(b));
      a += b;
      __builtin_memcpy(sum + i, &a, sizeof(a));
    }
    return;
  }
#endif
  combine_lanes(sum, term, [](auto a, auto b) {
    if constexpr (taken_as_words<A, Count>) {
      return LanesInWord<A>::sum(a, b);
    } else {
      return reduce_sum(a, b);
    }
  });
}
template <class A>
PLAIT_ELEMENT A reduce_prod(A a, A b) {
  if constexpr (std::is_integral_v<A>) {
    // At least 32 bits unsigned: promoted to int, the product could overflow.
    using Wide = std::conditional_t<(sizeof(A) < 4), std::uint32_t, std::make_unsigned_t<A>>;
    return static_cast<A>(static_cast<Wide>(a) * static_cast<Wide>(b));
  } else {
    return a * b;
  }
}
template <class A>
PLAIT_ELEMENT A reduce_min(A a, A b) {
  return b < a || a != a ? b : a;  // prefers a number to a NaN
}
template <class A>
PLAIT_ELEMENT A reduce_max(A a, A b) {
  return a < b || a != a ? b : a;
}

}  // namespace plait
