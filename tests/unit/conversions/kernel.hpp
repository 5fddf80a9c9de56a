// Conversions of the small floats as a Reducer makes them, with the target's own instructions where
// it has any, beside the portable code of backends/device/numeric.hpp: of all encoded, and of all
// numbers of f32 that a launch is given.
#pragma once
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/pack.hpp"

namespace plait::conversions {

using Types = TypeList<f16, bf16, f8e4m3, f8e5m2>;

struct Args {
  std::uint64_t inputs;   // how many: 2^32 are all numbers of f32
  std::uint32_t spacing;  // odd; input i is the f32 with the bits i * spacing
  std::uint32_t* wrong;   // two words a thread: how many were wrong, and the bits of one of them
};

template <class T>
struct Portable;
template <>
struct Portable<f16> : SmallFloat<std::uint16_t, 5, 10, false> {};
template <>
struct Portable<bf16> {  // the upper half of an f32
  PLAIT_DEVICE static float widen(std::uint16_t code) {
    return bits_as<float>(std::uint32_t{code} << 16);
  }
  PLAIT_DEVICE static std::uint16_t narrow(float value) {
    if (value != value) return 0x7fff;
    const std::uint32_t bits = bits_as<std::uint32_t>(value), upper = bits >> 16,
                        rest = bits & 0xffffu;
    return static_cast<std::uint16_t>(
        upper + (rest > 0x8000u || (rest == 0x8000u && upper % 2 == 1) ? 1 : 0));
  }
};
template <>
struct Portable<f8e4m3> : E4M3 {};
template <>
struct Portable<f8e5m2> : E5M2 {};

template <class T>
struct Kernel {
  using Bits = decltype(T::bits);
  static constexpr unsigned together = 8;
  using Encoded = Pack<T, together * sizeof(T)>;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    std::uint32_t wrong = 0, one = 0;
    const auto check = [&](bool right, std::uint32_t input) {
      if (right) return;
      ++wrong;
      one = input;
    };
    const Reducer<T> reducer(Reduction{});
    const std::uint64_t threads = std::uint64_t{dev.blocks()} * dev.threads(),
                        me = std::uint64_t{dev.block()} * dev.threads() + dev.thread();
    for (std::uint64_t i = me * together; i < a.inputs; i += threads * together) {
      typename Reducer<T>::template Accumulator<together> numbers;
      PLAIT_UNROLL
      for (unsigned k = 0; k < together; ++k)
        numbers.lane[k] = bits_as<float>(static_cast<std::uint32_t>(i + k) * a.spacing);
      const Encoded encoded = reducer.template rounded<sizeof(Encoded)>(numbers);
      PLAIT_UNROLL
      for (unsigned k = 0; k < together; ++k)
        check(narrowed(encoded.lane[k], numbers.lane[k]), bits_as<std::uint32_t>(numbers.lane[k]));
    }
    constexpr std::uint64_t all_codes = std::uint64_t{1} << (8 * sizeof(Bits));
    for (std::uint64_t i = me * together; i < all_codes; i += threads * together) {
      Encoded encoded;
      PLAIT_UNROLL
      for (unsigned k = 0; k < together; ++k) encoded.lane[k].bits = static_cast<Bits>(i + k);
      const auto numbers = reducer.widened(encoded);
      PLAIT_UNROLL
      for (unsigned k = 0; k < together; ++k)
        check(widened(numbers.lane[k], encoded.lane[k]), encoded.lane[k].bits);
    }
    a.wrong[2 * me] = wrong;
    a.wrong[2 * me + 1] = one;
  }

 private:
  PLAIT_DEVICE static bool narrowed(T code, float x) {
    return code.bits == Portable<T>::narrow(x);  // a NaN, too, has one code
  }
  PLAIT_DEVICE static bool widened(float x, T code) {
    const float wanted = Portable<T>::widen(code.bits);
    return wanted == wanted ? bits_as<std::uint32_t>(x) == bits_as<std::uint32_t>(wanted) : x != x;
  }
};

}  // namespace plait::conversions
