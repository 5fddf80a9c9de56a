// Test data: hashed small integers that every type holds exactly, and what a reduction of them must
// give, computed on the host.
#pragma once
#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>

#include "algorithms/contract/collectives.hpp"
#include "backends/device/numeric.hpp"
#include "plait/call.hpp"
#include "plait/types.hpp"

namespace plait::test {

/// splitmix64 (Steele et al. 2014).
inline std::uint64_t hash(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
/// The hash of three small numbers: multiples of odd constants keep them apart.
inline std::uint64_t hash(std::uint64_t seed, std::uint64_t rank, std::uint64_t i) {
  return hash(seed * 0xd1342543de82ef95u + rank * 0xaf251af3b0f025b5u + i);
}

/// Largest magnitude of one rank's element, such that a sum over 8 ranks and all its parts are
/// exact, also after a division by 8 or a multiplication by 0.5 or 2.
template <class T>
constexpr int span_of() {
  if constexpr (std::is_same_v<T, f8e5m2>) return 1;       // integers to 8
  else if constexpr (std::is_same_v<T, f8e4m3>) return 2;  // to 16
  else if constexpr (std::is_same_v<T, bf16>) return 32;   // to 256
  else if constexpr (std::is_same_v<T, f16>) return 256;   // to 2048
  else return 100000;
}

/// Distance from 1 to the next number, for error bounds.
template <class T>
constexpr double epsilon_of() {
  if constexpr (std::is_same_v<T, f8e5m2>) return 0.25;
  else if constexpr (std::is_same_v<T, f8e4m3>) return 0.125;
  else if constexpr (std::is_same_v<T, bf16>) return 0x1p-7;
  else if constexpr (std::is_same_v<T, f16>) return 0x1p-10;
  else return static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// The unsigned type of T's size.
template <class T>
using BitsOf = std::conditional_t<
    sizeof(T) == 1, std::uint8_t,
    std::conditional_t<sizeof(T) == 2, std::uint16_t,
                       std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;

/// A `DataType::boolean`. Unlike C++'s, it may have any bits.
struct Truth {
  std::uint8_t byte;
};
template <class T>
inline constexpr bool is_complex_number = false;
template <class F>
inline constexpr bool is_complex_number<std::complex<F>> = true;
template <class T>
inline constexpr bool is_pair = false;
template <class V>
inline constexpr bool is_pair<ValueIndex<V>> = true;
/// Whether T is no number that has one part.
template <class T>
inline constexpr bool is_composite = std::is_same_v<T, Truth> || is_complex_number<T> || is_pair<T>;

/// Rounds to T: what the library does when a value leaves an accumulator.
template <class T>
T to(double x) {
  return narrow<T>(static_cast<Accumulated<T>>(x));
}

/// Element `i` of rank `rank`. Integers use all their bits: results wrap.
template <class T>
T element(std::uint64_t seed, int rank, std::size_t i, ReduceOp op) {
  const std::uint64_t h = hash(seed, static_cast<std::uint64_t>(rank), i);
  if constexpr (std::is_same_v<T, Truth>) {
    return {element<std::uint8_t>(seed, rank, i, op)};
  } else if constexpr (is_complex_number<T>) {
    using F = typename T::value_type;
    if (op != ReduceOp::prod)
      return {element<F>(seed, rank, 2 * i, op), element<F>(seed, rank, 2 * i + 1, op)};
    constexpr T factors[] = {{1, 0}, {0, 1}, {-2, 0}, {0, -1}, {1, 1}};
    return factors[h % std::size(factors)];
  } else if constexpr (is_pair<T>) {
    T pair;
    std::memset(&pair, 0, sizeof(pair));  // its padding, too
    pair.value = static_cast<decltype(pair.value)>(static_cast<int>(h % 4) - 2);
    pair.index = static_cast<std::int32_t>(h >> 8);
    return pair;
  } else if constexpr (std::is_integral_v<T>) {
    // With random bits, nearly all would be true, and so would nearly all results.
    const std::uint64_t of = op == ReduceOp::land ? 8 : op == ReduceOp::lxor ? 2 : 4;
    const bool truth = op == ReduceOp::lor ? h % of == 0 : h % of != 0;
    if (is_logical(op)) return static_cast<T>(truth ? h >> 8 | (h & 0x80) >> 6 | 2 : 0);
    return static_cast<T>(h);
  } else {
    if (op == ReduceOp::prod) return to<T>(h % 4 == 0 ? 2 : h % 4 == 1 ? -1 : h % 4 == 2 ? -2 : 1);
    // Nothing is summed for the least and the greatest, so fewer ranks have the same number.
    const bool sums = op != ReduceOp::min && op != ReduceOp::max;
    const int span = span_of<T>() * (sums ? 1 : 8);
    return to<T>(static_cast<double>(h % static_cast<unsigned>(2 * span + 1)) - span);
  }
}

/// An operation on bits, or on integers as truth values.
template <class T>
T combine_bits(ReduceOp op, T a, T b) {
  if (is_logical(op)) a = a != 0, b = b != 0;
  if (op == ReduceOp::band || op == ReduceOp::land) return static_cast<T>(a & b);
  if (op == ReduceOp::bor || op == ReduceOp::lor) return static_cast<T>(a | b);
  return static_cast<T>(a ^ b);
}

/// A reduction over the elements that `at(rank)` gives: integers as types.hpp says, floats and
/// complex numbers in f64.
template <class T, class At>
auto reduce_reference(ReduceOp op, int ranks, double scale, At at) requires is_composite<T> {
  if constexpr (std::is_same_v<T, Truth>) {
    return Truth{
        reduce_reference<std::uint8_t>(op, ranks, scale, [&](int rank) { return at(rank).byte; })};
  } else if constexpr (is_pair<T>) {
    T best = at(0);
    for (int rank = 1; rank < ranks; ++rank) {
      const T next = at(rank);
      const bool wins = op == ReduceOp::minloc ? next.value < best.value : best.value < next.value;
      if (wins || (next.value == best.value && next.index < best.index)) best = next;
    }
    return best;
  } else {
    std::complex<double> acc{op == ReduceOp::prod ? 1.0 : 0.0, 0.0};
    for (int rank = 0; rank < ranks; ++rank) {
      const std::complex<double> x = at(rank);
      acc = op == ReduceOp::prod ? acc * x : acc + x;
    }
    return op == ReduceOp::avg          ? acc / static_cast<double>(ranks)
           : op == ReduceOp::premul_sum ? acc * scale
                                        : acc;
  }
}
template <class T, class At>
auto reduce_reference(ReduceOp op, int ranks, double scale, At at) {
  using Value = std::conditional_t<std::is_integral_v<T>, T, double>;
  const auto value = [&](int rank) {
    const double factor = op == ReduceOp::premul_sum ? scale : 1;
    if constexpr (std::is_integral_v<T>) return at(rank);
    else return static_cast<double>(widen(at(rank))) * factor;
  };
  const auto wrap = [](auto x) { return static_cast<Value>(x); };
  Value acc = value(0);
  if constexpr (std::is_integral_v<T>) {
    if (op >= ReduceOp::band) {
      if (is_logical(op)) acc = acc != 0;
      for (int rank = 1; rank < ranks; ++rank) acc = combine_bits(op, acc, value(rank));
      return acc;
    }
  }
  for (int rank = 1; rank < ranks; ++rank) {
    const Value x = value(rank);
    if (op == ReduceOp::min) acc = x < acc ? x : acc;
    else if (op == ReduceOp::max) acc = acc < x ? x : acc;
    else if constexpr (std::is_integral_v<T>) {
      const auto a = static_cast<std::uint64_t>(acc), b = static_cast<std::uint64_t>(x);
      acc = wrap(op == ReduceOp::prod ? a * b : a + b);
    } else {
      acc = op == ReduceOp::prod ? acc * x : acc + x;
    }
  }
  if (op != ReduceOp::avg) return acc;
  if constexpr (!std::is_integral_v<T>) return acc / ranks;
  else if constexpr (std::is_signed_v<T>) return wrap(static_cast<std::int64_t>(acc) / ranks);
  else return wrap(static_cast<std::uint64_t>(acc) / static_cast<unsigned>(ranks));
}

/// The right value of element `i`, from the terms of the first ranks, before it is rounded to T.
template <class T>
auto expected(std::uint64_t seed, int terms, std::size_t i, ReduceOp op, double scale) {
  return reduce_reference<T>(op, terms, scale,
                             [&](int rank) { return element<T>(seed, rank, i, op); });
}

/// Element `i` of what `rank` receives in `call`, in which every rank sends its `element`s.
template <class T>
auto received(const Call& call, std::uint64_t seed, int ranks, int rank, std::size_t i) {
  using Reduced = decltype(expected<T>(seed, 1, i, call.op, call.scale));
  const auto own = static_cast<std::size_t>(rank), count = call.count;
  const auto reduced = [&](std::size_t at) {
    return expected<T>(seed, terms_of(call.collective, rank, ranks), at, call.op, call.scale);
  };
  const auto moved = [&](std::size_t from, std::size_t at) {
    const T x = element<T>(seed, static_cast<int>(from), at, call.op);
    if constexpr (is_composite<T>) return static_cast<Reduced>(x);
    else return static_cast<Reduced>(widen(x));
  };
  switch (call.collective) {
    case Collective::reduce_scatter:
      return reduced(own * count + i);
    case Collective::all_gather:
    case Collective::gather:
      return moved(i / count, i % count);
    case Collective::broadcast:
      return moved(static_cast<std::size_t>(call.root), i);
    case Collective::all_to_all:
      return moved(i / count, own * count + i % count);
    case Collective::scatter:
      return moved(static_cast<std::size_t>(call.root), own * count + i);
    case Collective::send_recv:  // goes round
      return moved(static_cast<std::size_t>(rank == 0 ? ranks - 1 : rank - 1), i);
    default:
      return reduced(i);
  }
}

/// Whether a result is `expected`, rounded to T. Sums of `element`s are exact in any order, so only
/// the division of an average rounds, and it does so once.
template <class T, class Wanted>
bool is_right(const T& got, const Wanted& wanted) {
  if constexpr (std::is_same_v<T, Truth>) {
    return got.byte == wanted.byte;
  } else if constexpr (is_pair<T>) {
    return got.value == wanted.value && got.index == wanted.index;
  } else if constexpr (is_complex_number<T>) {
    return is_right(got.real(), wanted.real()) && is_right(got.imag(), wanted.imag());
  } else if constexpr (std::is_integral_v<T>) {
    return got == wanted;
  } else {
    return widen(got) == widen(to<T>(wanted));
  }
}
/// Whether two elements are the same, up to the bytes that pad a pair: a copy need not keep those.
template <class T>
bool are_same(const T& a, const T& b) {
  if constexpr (is_pair<T>) return a.value == b.value && a.index == b.index;
  else return std::memcmp(&a, &b, sizeof(T)) == 0;
}
/// An element or an expected one, for messages.
template <class T>
std::string text_of(const T& x) {
  if constexpr (std::is_same_v<T, Truth>) return fmt::format("{}", x.byte);
  else if constexpr (is_pair<T>) return fmt::format("({}, {})", x.value, x.index);
  else if constexpr (is_complex_number<T>) return fmt::format("{} + {}i", x.real(), x.imag());
  else return fmt::format("{}", widen(x));
}

/// A float of either sign whose exponent varies over `spread` powers of two, from the hash `h`.
template <class T>
T wide(std::uint64_t h, int spread) {
  const double mantissa = 1 + static_cast<double>(h >> 12) * 0x1p-52;
  const int exponent = static_cast<int>(h % static_cast<unsigned>(2 * spread + 1)) - spread;
  return to<T>(((h >> 8) & 1 ? -1 : 1) * std::ldexp(mantissa, exponent));
}

/// Calls `f.template operator()<T>()` for the element type, a number of one part.
template <class F>
auto dispatch(DataType type, F f) {
  switch (type) {
    case DataType::i8:
      return f.template operator()<std::int8_t>();
    case DataType::u8:
      return f.template operator()<std::uint8_t>();
    case DataType::i16:
      return f.template operator()<std::int16_t>();
    case DataType::u16:
      return f.template operator()<std::uint16_t>();
    case DataType::i32:
      return f.template operator()<std::int32_t>();
    case DataType::u32:
      return f.template operator()<std::uint32_t>();
    case DataType::i64:
      return f.template operator()<std::int64_t>();
    case DataType::u64:
      return f.template operator()<std::uint64_t>();
    case DataType::f16:
      return f.template operator()<f16>();
    case DataType::bf16:
      return f.template operator()<bf16>();
    case DataType::f8e4m3:
      return f.template operator()<f8e4m3>();
    case DataType::f8e5m2:
      return f.template operator()<f8e5m2>();
    case DataType::f32:
      return f.template operator()<float>();
    default:
      return f.template operator()<double>();
  }
}
/// The same for all types.
template <class F>
auto dispatch_all(DataType type, F f) {
  switch (type) {
    case DataType::boolean:
      return f.template operator()<Truth>();
    case DataType::complex_f32:
      return f.template operator()<std::complex<float>>();
    case DataType::complex_f64:
      return f.template operator()<std::complex<double>>();
    case DataType::f32_i32:
      return f.template operator()<ValueIndex<float>>();
    case DataType::f64_i32:
      return f.template operator()<ValueIndex<double>>();
    case DataType::i32_i32:
      return f.template operator()<ValueIndex<std::int32_t>>();
    case DataType::i64_i32:
      return f.template operator()<ValueIndex<std::int64_t>>();
    default:
      return dispatch(type, f);
  }
}

}  // namespace plait::test
