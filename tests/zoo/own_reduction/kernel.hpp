// Kernels of the library for elements and operations that no data type and no ReduceOp is.
#pragma once
#include "algorithms/all_reduce/oneshot_ll/kernel.hpp"
#include "algorithms/all_reduce/ring/kernel.hpp"
#include "algorithms/all_reduce/stream/kernel.hpp"
#include "algorithms/all_reduce/twoshot_ll/kernel.hpp"
#include "backends/device/own_reducer.hpp"

namespace plait::test {

/// A complex number whose parts are integers modulo a prime: its products are exact in any order.
struct alignas(8) Complex {
  std::uint32_t re, im;
  friend constexpr bool operator==(const Complex&, const Complex&) = default;
};
struct Product {
  static constexpr std::uint32_t prime = 10007;
  PLAIT_DEVICE constexpr Complex operator()(const Complex& a, const Complex& b) const {
    return {(a.re * b.re + (prime - a.im) * b.im) % prime, (a.re * b.im + a.im * b.re) % prime};
  }
};

/// Two bytes, so several to a packet. The result is the sum of the low halves modulo 251, and the
/// greatest of the high halves.
struct alignas(2) SumAndMost {
  std::uint8_t sum, most;
  friend constexpr bool operator==(const SumAndMost&, const SumAndMost&) = default;
};
struct Both {
  PLAIT_DEVICE constexpr SumAndMost operator()(const SumAndMost& a, const SumAndMost& b) const {
    return {static_cast<std::uint8_t>((a.sum + b.sum) % 251), a.most < b.most ? b.most : a.most};
  }
};

}  // namespace plait::test

template <>
struct plait::DataTypeOf<plait::test::Complex> {
  static constexpr DataType value = DataType::f64;
};
template <>
struct plait::DataTypeOf<plait::test::SumAndMost> {
  static constexpr DataType value = DataType::bf16;
};
template <>
class plait::Reducer<plait::test::Complex>
    : public plait::OwnReducer<plait::test::Complex, plait::test::Product> {
  using OwnReducer::OwnReducer;
};
template <>
class plait::Reducer<plait::test::SumAndMost>
    : public plait::OwnReducer<plait::test::SumAndMost, plait::test::Both> {
  using OwnReducer::OwnReducer;
};

#define PLAIT_TEST_FAMILY(name, original)                                \
  namespace plait::name {                                                \
  using Types = TypeList<plait::test::Complex, plait::test::SumAndMost>; \
  using original::Args;                                                  \
  using original::Kernel;                                                \
  }
PLAIT_TEST_FAMILY(own_oneshot, oneshot_ll)
PLAIT_TEST_FAMILY(own_twoshot, twoshot_ll)
PLAIT_TEST_FAMILY(own_stream, stream)
PLAIT_TEST_FAMILY(own_ring, ring)  // compiled alone: partial sums travel in it
#undef PLAIT_TEST_FAMILY
