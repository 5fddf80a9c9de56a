// Data that every element type holds exactly, and the check of their reduction. Both run on the
// device, where the data lie.
//
// Rank r's element i is a small number made of hash(seed, r, i). The numbers are so small that
// every partial result, in any order, is exact in the type. That holds for at least 8 ranks, and
// for more because then some ranks' terms are zero, or one in a product. So there is one right
// answer, bit for bit. `avg` over a number of ranks that is no power of two gets multiples of that
// number, whose average is an integer again: f32 is so precise that every way of computing it
// rounds to that integer in a smaller type. If some terms are zero, it is no integer, and rounded
// once. For f32 and f64 themselves an error bound holds.
//
// A term that is lost or counted twice must show, whatever the operation. So bits, truth values and
// values to be searched for the least one are chosen such that no operation has nearly always the
// same result, for any number of ranks.
//
// This file computes the answer independently, in f64, in integers or in wrapping ones: it does not
// use the reduction that it checks. Kernels are few, because one serves all types whose elements
// have the same words. They tell the types apart at run time.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "backends/device/device.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/numeric.hpp"
#include "backends/device/pack.hpp"
#include "backends/device/pair.hpp"

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
  Elements elements = Elements::plain;
  ReduceOp op = ReduceOp::sum;
  Mode mode = Mode::fill;
};

/// Entry of a list of types: the elements of one byte that are no floats.
struct Bytes {};

}  // namespace plait::exact

namespace plait {
template <>
struct Listed<exact::Bytes> {
  using Element = std::uint8_t;
  static constexpr std::array data_types{DataType::u8, DataType::i8, DataType::boolean};
};
}  // namespace plait

namespace plait::exact {

using Types =
    TypeList<Bytes, EitherSign<std::uint16_t>, EitherSign<std::uint32_t>, EitherSign<std::uint64_t>,
             f16, bf16, f8e4m3, f8e5m2, float, double, Pair<std::uint32_t>, Pair<std::uint64_t>>;

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
template <class Word>
PLAIT_DEVICE bool same_bits(const Pair<Word>& a, const Pair<Word>& b) {
  return a.first == b.first && a.second == b.second;
}

/// The elements of one call and their right results, for integers and `boolean`. T is unsigned.
template <class T>
class Rule {
 public:
  PLAIT_DEVICE explicit Rule(const Args& args)
      : args_(args),
        has_sign_(args.elements == Elements::signed_integers),
        is_logical_(args.op >= ReduceOp::land && args.op <= ReduceOp::lxor) {
    while (rarity_ < 16 && (1 << rarity_) < args.ranks) ++rarity_;
  }

  PLAIT_DEVICE T input(int rank, std::size_t i) const {
    const std::uint32_t h = hash(args_.seed, rank, i);
    if (is_logical_) {
      // One bit makes an element true, and each bit does so on some rank.
      const bool rare = (h & ((1u << rarity_) - 1)) == 0,
                 is_true = args_.op == ReduceOp::land  ? !rare
                           : args_.op == ReduceOp::lor ? rare
                                                       : (h & 1u) != 0;
      return is_true ? static_cast<T>(std::uint64_t{1} << (h >> 16) % bits) : T{0};
    }
    // Any value, because integers wrap.
    T value = mixed(h);
    // Odd, so that the product is never zero.
    if (args_.op == ReduceOp::prod) value = static_cast<T>(value | T{1});
    if (args_.op == ReduceOp::band || args_.op == ReduceOp::bor) {
      // Few zeros for `band` and few ones for `bor`: each bit has about one among all ranks.
      for (unsigned k = 1; k < rarity_; ++k) {
        const T other = mixed(hash(args_.seed + k * 0x632be5abu, rank, i));
        value = static_cast<T>(args_.op == ReduceOp::band ? value | other : value & other);
      }
    }
    return value;
  }

  PLAIT_DEVICE bool is_right(T got, std::size_t i) const {
    T result = term(0, i);
    for (int rank = 1; rank < args_.terms; ++rank) result = combine(result, term(rank, i));
    if (args_.op == ReduceOp::avg) {
      if (has_sign_)
        result = static_cast<T>(static_cast<std::int64_t>(static_cast<Signed>(result)) /
                                static_cast<std::int64_t>(args_.ranks));
      else result = static_cast<T>(result / static_cast<std::uint64_t>(args_.ranks));
    }
    return got == result;
  }

 private:
  using Signed = std::make_signed_t<T>;
  static constexpr unsigned bits = 8 * sizeof(T);

  PLAIT_DEVICE static T mixed(std::uint32_t h) {
    return static_cast<T>((h * 0x9e3779b97f4a7c15ull) >> (64 - bits));
  }
  /// A single one is a truth value, too.
  PLAIT_DEVICE T term(int rank, std::size_t i) const {
    const T value = input(rank, i);
    return is_logical_ ? static_cast<T>(value != 0 ? 1 : 0) : value;
  }
  PLAIT_DEVICE bool less(T a, T b) const {
    return has_sign_ ? static_cast<Signed>(a) < static_cast<Signed>(b) : a < b;
  }
  PLAIT_DEVICE T combine(T a, T b) const {
    const auto wide_a = static_cast<std::uint64_t>(a), wide_b = static_cast<std::uint64_t>(b);
    switch (args_.op) {
      case ReduceOp::prod:
        return static_cast<T>(wide_a * wide_b);
      case ReduceOp::min:
        return less(b, a) ? b : a;
      case ReduceOp::max:
        return less(a, b) ? b : a;
      case ReduceOp::band:
      case ReduceOp::land:
        return static_cast<T>(wide_a & wide_b);
      case ReduceOp::bor:
      case ReduceOp::lor:
        return static_cast<T>(wide_a | wide_b);
      case ReduceOp::bxor:
      case ReduceOp::lxor:
        return static_cast<T>(wide_a ^ wide_b);
      default:
        return static_cast<T>(wide_a + wide_b);
    }
  }

  const Args args_;
  const bool has_sign_, is_logical_;
  unsigned rarity_ = 1;  // 2^rarity is at least the number of ranks
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
      exact_ = sizeof(T) < 4;
      // If some terms are zero, the number of ranks itself isn't exact in the type.
      if (exact_ && terms_ == 0) unit_ = args.ranks;
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

/// The elements of one call and their right results, for complex numbers and for values with an
/// index.
template <class Word>
class Rule<Pair<Word>> {
 public:
  PLAIT_DEVICE explicit Rule(const Args& args)
      : args_(args),
        parts_(args),
        is_complex_(args.elements == Elements::complex),
        has_float_(args.elements == Elements::float_and_index) {}

  PLAIT_DEVICE Pair<Word> input(int rank, std::size_t i) const {
    if (!is_complex_) return {word_of(value(rank, i)), padded(index(rank, i))};
    if (args_.op == ReduceOp::prod) return pair_of(factor(rank, i));
    return {bits_as<Word>(parts_.input(rank, 2 * i)), bits_as<Word>(parts_.input(rank, 2 * i + 1))};
  }

  PLAIT_DEVICE bool is_right(const Pair<Word>& got, std::size_t i) const {
    if (!is_complex_) return is_winner(got, i);
    if (args_.op != ReduceOp::prod)
      return parts_.is_right(bits_as<Float>(got.first), 2 * i) &&
             parts_.is_right(bits_as<Float>(got.second), 2 * i + 1);
    Gaussian product = factor(0, i);
    for (int rank = 1; rank < args_.terms; ++rank) {
      const Gaussian a = product, b = factor(rank, i);
      product = {a.real * b.real - a.imaginary * b.imaginary,
                 a.real * b.imaginary + a.imaginary * b.real};
    }
    return same_bits(got, pair_of(product));
  }

 private:
  using Float = std::conditional_t<sizeof(Word) == 4, float, double>;
  struct Gaussian {
    std::int64_t real, imaginary;
  };

  PLAIT_DEVICE static Pair<Word> pair_of(Gaussian z) {
    return {bits_as<Word>(static_cast<Float>(z.real)),
            bits_as<Word>(static_cast<Float>(z.imaginary))};
  }
  /// 1 or 2+i, times 1, i, -1 or -i. Rank 0 has 2+i, so no part of the result is zero: the sign of
  /// a zero would depend on the order. Eight ranks at most have it: the parts stay below 626.
  PLAIT_DEVICE Gaussian factor(int rank, std::size_t i) const {
    const std::uint32_t h = hash(args_.seed, rank, i);
    Gaussian z = rank == 0 || (rank < 8 && (h & 4u) != 0) ? Gaussian{2, 1} : Gaussian{1, 0};
    for (std::uint32_t turns = h & 3u; turns != 0; --turns) z = {-z.imaginary, z.real};
    return z;
  }

  /// The values are so few that often several ranks have the least one. A value is a multiple of a
  /// constant whose low half is -1 if the words have 64 bits: the halves are in opposite orders.
  PLAIT_DEVICE std::int64_t value(int rank, std::size_t i) const {
    const std::uint64_t values = static_cast<std::uint64_t>(args_.ranks) + 1;
    const auto step = static_cast<std::int64_t>((hash(args_.seed, rank, i) * values) >> 32) -
                      static_cast<std::int64_t>(args_.ranks / 2);
    return step * (sizeof(Word) == 4 ? 257 : (std::int64_t{1} << 40) - 1);
  }
  PLAIT_DEVICE std::int32_t index(int rank, std::size_t i) const {
    return static_cast<std::int32_t>(hash(args_.seed + 0x632be5abu, rank, i));
  }
  PLAIT_DEVICE Word word_of(std::int64_t value) const {
    return has_float_ ? bits_as<Word>(static_cast<Float>(value)) : static_cast<Word>(value);
  }
  /// The index in its word. Padding has its bits inverted, so the word is in another order.
  PLAIT_DEVICE static Word padded(std::int32_t index) {
    const std::uint64_t low = static_cast<std::uint32_t>(index);
    return static_cast<Word>(sizeof(Word) == 4 ? low : low | ~low << 32);
  }
  /// Padding of a result may have any bits: MPI leaves it as it was.
  PLAIT_DEVICE bool is_winner(const Pair<Word>& got, std::size_t i) const {
    std::int64_t best = value(0, i);
    std::int32_t where = index(0, i);
    for (int rank = 1; rank < args_.terms; ++rank) {
      const std::int64_t other = value(rank, i);
      const std::int32_t there = index(rank, i);
      const bool wins = args_.op == ReduceOp::minloc ? other < best : other > best;
      if (wins || (other == best && there < where)) {
        best = other;
        where = there;
      }
    }
    return got.first == word_of(best) &&
           static_cast<std::uint32_t>(got.second) == static_cast<std::uint32_t>(where);
  }

  const Args args_;
  const Rule<Float> parts_;  // of sums of complex numbers
  const bool is_complex_, has_float_;
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
