// Data that every element type holds exactly, and the check of their reduction. Both run on the
// device, where the data lie.
//
// Rank r's element i is a small integer made of hash(seed, r, i). The integers are so small that
// every partial result, in any order, is exact in the type. That holds for at least 8 ranks, and
// for more because then some ranks' terms are zero. So there is one right answer, bit for bit.
// `avg` over a number of ranks that is no power of two gets multiples of that number, whose average
// is an integer again: f32 is so precise that every way of computing it rounds to that integer in a
// smaller type. For f32 and f64 themselves an error bound holds.
//
// This file computes the answer independently, in f64 or in wrapping integers: it does not use the
// reduction that it checks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/numeric.hpp"

namespace plait::exact {

enum class Mode : std::uint32_t { fill, check_input, check_result };

struct Args {
  void* data = nullptr;
  std::size_t count = 0;
  std::size_t begin = 0;           // number of the first element
  std::uint32_t* wrong = nullptr;  // number of wrong elements, one word per thread of the launch
  double scale = 1;                // for premul_sum; a power of two
  std::uint32_t seed = 0;
  int rank = 0, ranks = 1;
  int terms = 1;  // in the result, those of the first ranks
  ReduceOp op = ReduceOp::sum;
  Mode mode = Mode::fill;
};

using Types = AllTypes;

/// Two rounds of multiply and shift (the constants of "lowbias32" by C. Wellons), one stream per
/// rank.
PLAIT_DEVICE std::uint32_t hash(std::uint32_t seed, int rank, std::size_t i) {
  const std::uint64_t index = i;
  std::uint32_t h = static_cast<std::uint32_t>(index) * 0x85ebca6bu +
                    static_cast<std::uint32_t>(index >> 32) * 0x27d4eb2fu;
  h += (seed * 0x9e3779b1u) ^ ((static_cast<std::uint32_t>(rank) + 1u) * 0xc2b2ae35u);
  h = (h ^ (h >> 16)) * 0x7feb352du;
  h = (h ^ (h >> 15)) * 0x846ca68bu;
  return h ^ (h >> 16);
}

/// Integers up to this magnitude are exact in the float T. (f32 and f64 have larger limits; these
/// values distinguish f64 from f32 and fit the arithmetic.)
template <class T>
PLAIT_DEVICE constexpr std::int64_t exact_limit() {
  if constexpr (std::is_same_v<T, f8e5m2>) return 8;
  else if constexpr (std::is_same_v<T, f8e4m3>) return 16;
  else if constexpr (std::is_same_v<T, bf16>) return 256;
  else if constexpr (std::is_same_v<T, f16>) return 2048;
  else if constexpr (std::is_same_v<T, float>) return std::int64_t{1} << 24;
  else return std::int64_t{1} << 30;
}

template <class T>
PLAIT_DEVICE bool same_bits(T a, T b) {
  using Bits = std::conditional_t<
      sizeof(T) == 1, std::uint8_t,
      std::conditional_t<sizeof(T) == 2, std::uint16_t,
                         std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
  return bits_as<Bits>(a) == bits_as<Bits>(b);
}

/// The elements of one call and their right results, for integers.
template <class T>
class Rule {
 public:
  PLAIT_DEVICE explicit Rule(const Args& args) : args_(args) {}

  /// Any value, because integers wrap. For products it is odd, so that the product is never zero.
  PLAIT_DEVICE T input(int rank, std::size_t i) const {
    const std::uint64_t wide = hash(args_.seed, rank, i) * 0x9e3779b97f4a7c15ull;
    const T value = static_cast<T>(wide >> (64 - 8 * sizeof(T)));
    return args_.op == ReduceOp::prod ? static_cast<T>(value | T{1}) : value;
  }

  PLAIT_DEVICE bool is_right(T got, std::size_t i) const {
    T result = input(0, i);
    for (int rank = 1; rank < args_.terms; ++rank) result = combine(result, input(rank, i));
    if (args_.op == ReduceOp::avg) {
      if constexpr (std::is_signed_v<T>)
        result = static_cast<T>(result / static_cast<std::int64_t>(args_.ranks));
      else result = static_cast<T>(result / static_cast<std::uint64_t>(args_.ranks));
    }
    return got == result;
  }

 private:
  PLAIT_DEVICE T combine(T a, T b) const {
    const auto wide_a = static_cast<std::uint64_t>(a), wide_b = static_cast<std::uint64_t>(b);
    if (args_.op == ReduceOp::prod) return static_cast<T>(wide_a * wide_b);
    if (args_.op == ReduceOp::min) return b < a ? b : a;
    if (args_.op == ReduceOp::max) return b > a ? b : a;
    return static_cast<T>(wide_a + wide_b);
  }

  const Args args_;
};

/// The elements of one call and their right results, for floats: integers that f64 sums and
/// multiplies exactly.
template <class T>
requires(is_float(data_type_of<T>)) class Rule<T> {
 public:
  PLAIT_DEVICE explicit Rule(const Args& args) : args_(args) {
    const bool sums =
        args.op == ReduceOp::sum || args.op == ReduceOp::avg || args.op == ReduceOp::premul_sum;
    const std::int64_t limit = exact_limit<T>();
    largest_ = sums ? limit / args.ranks : limit;
    if (largest_ == 0) largest_ = 1, terms_ = static_cast<int>(limit);
    if (args.op == ReduceOp::avg && (args.ranks & (args.ranks - 1)) != 0) {
      // If some terms are zero, the number of ranks itself isn't exact in the type.
      exact_ = sizeof(T) < 4 && terms_ == 0;
      if (exact_) unit_ = args.ranks;
    }
  }

  PLAIT_DEVICE T input(int rank, std::size_t i) const { return to_type(value(rank, i)); }

  PLAIT_DEVICE bool is_right(T got, std::size_t i) const {
    double result = value(0, i), magnitude = result < 0 ? -result : result;
    for (int rank = 1; rank < args_.terms; ++rank) {
      const double term = value(rank, i);
      result = combine(result, term);
      const double size = term < 0 ? -term : term;
      magnitude = size > magnitude ? size : magnitude;
    }
    if (args_.op == ReduceOp::avg) result = result / args_.ranks;
    if (args_.op == ReduceOp::premul_sum) result = result * args_.scale;
    if (exact_) return same_bits(got, to_type(result));
    // Every rank may have rounded a partial result, and none is larger than the largest term.
    const double error = static_cast<double>(widen(got)) - result;
    const double bound = args_.ranks * epsilon() * magnitude;
    return error <= bound && -error <= bound;  // false for NaN
  }

 private:
  PLAIT_DEVICE double value(int rank, std::size_t i) const {
    const std::uint32_t h = hash(args_.seed, rank, i);
    if (args_.op == ReduceOp::prod) {
      // -1, 1 or 2, but 2 only on the first eight ranks: their product, 256, fits every type.
      const std::uint32_t choice = h & 3u;
      return choice == 0 ? -1.0 : choice == 1 && rank < 8 ? 2.0 : 1.0;
    }
    if (terms_ && (i + static_cast<std::size_t>(rank)) % static_cast<std::size_t>(args_.ranks) >=
                      static_cast<std::size_t>(terms_))
      return 0;
    const auto span = static_cast<std::uint64_t>(2 * largest_ + 1);
    return static_cast<double>((static_cast<std::int64_t>((h * span) >> 32) - largest_) * unit_);
  }
  PLAIT_DEVICE double combine(double a, double b) const {
    if (args_.op == ReduceOp::prod) return a * b;
    if (args_.op == ReduceOp::min) return b < a ? b : a;
    if (args_.op == ReduceOp::max) return b > a ? b : a;
    return a + b;
  }
  PLAIT_DEVICE static T to_type(double x) { return narrow<T>(static_cast<Accumulated<T>>(x)); }
  PLAIT_DEVICE static constexpr double epsilon() {
    if constexpr (std::is_same_v<T, double>) return 1.0 / (std::int64_t{1} << 52);
    else if constexpr (std::is_same_v<T, float>) return 1.0 / (1 << 23);
    else return 2.0 / exact_limit<T>();  // p bits are exact up to 2^p, and epsilon is 2^(1-p)
  }

  const Args args_;
  std::int64_t largest_ = 0;  // magnitude of a term, in units
  int unit_ = 1;
  int terms_ = 0;  // number of ranks whose term may differ from zero; 0: all ranks
  bool exact_ = true;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& args) {
    const Rule<T> rule(args);
    T* const data = static_cast<T*>(args.data);
    const std::size_t first = static_cast<std::size_t>(dev.block()) * dev.threads() + dev.thread();
    const std::size_t step = static_cast<std::size_t>(dev.blocks()) * dev.threads();
    if (args.mode == Mode::fill) {
      for (std::size_t i = first; i < args.count; i += step)
        data[i] = rule.input(args.rank, args.begin + i);
      return;
    }
    std::uint32_t wrong = 0;
    if (args.mode == Mode::check_input) {
      for (std::size_t i = first; i < args.count; i += step)
        wrong += same_bits(data[i], rule.input(args.rank, args.begin + i)) ? 0u : 1u;
    } else {
      for (std::size_t i = first; i < args.count; i += step)
        wrong += rule.is_right(data[i], args.begin + i) ? 0u : 1u;
    }
    args.wrong[first] = wrong;
  }
};

}  // namespace plait::exact
