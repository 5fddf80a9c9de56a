// Packs, which are a few elements that are moved and reduced together, and the reduction itself.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "backends/device/numeric.hpp"
#include "backends/device/target.hpp"
#include "plait/types.hpp"

namespace plait {

/// `Bytes` bytes of T: a power of two that holds at least one element. GPUs load and store up to 16
/// bytes with one instruction, which demands that they are aligned. Larger packs are sums, or the
/// host's, whose instructions take any address.
template <class T, std::size_t Bytes>
struct alignas(Bytes <= 16 ? Bytes : sizeof(T)) Pack {
  static constexpr std::size_t lanes = Bytes / sizeof(T);
  T lane[lanes];
};

/// What a kernel that is compiled for several data types must know of the elements.
enum class Elements : std::uint8_t {
  plain,            // what the kernel is compiled for
  signed_integers,  // though it is compiled for unsigned ones (EitherSign)
  // Pairs.
  complex,
  float_and_index,
  integer_and_index
};
constexpr Elements elements_of(DataType type) {
  if (is_signed_integer(type)) return Elements::signed_integers;
  if (is_complex(type)) return Elements::complex;
  if (!is_value_index(type)) return Elements::plain;
  return type == DataType::f32_i32 || type == DataType::f64_i32 ? Elements::float_and_index
                                                                : Elements::integer_and_index;
}

/// The operation and the number of ranks. Every reducing kernel has one in its arguments.
struct Reduction {
  ReduceOp op = ReduceOp::sum;
  Elements elements = Elements::plain;
  DataType type = DataType::f32;  // for sums of a type that is known at run time only
  int ranks = 1;
  double scale = 1;   // premul_sum
  bool tree = false;  // SumOrder::tree, for kernels that see all terms
};

/// Elements of a pack during a reduction: in f32 for 16-bit and 8-bit floats, otherwise in T. The
/// operation is a uniform branch per pack, because the loops wait for links, not for arithmetic.
///
/// Where one rank sees all terms: `start(first)`, `add(acc, next)` ..., `finish(acc)`.
///
/// Where partial sums travel (ring): `start(mine)`, `add_partial(acc, partial)`, then
/// `rounded(acc)` to send the result on; the last rank calls `finish(acc)`.
///
/// `avg` of floats: each term is multiplied by the greatest power of two that is at most 1 / ranks,
/// so no sum overflows. The sum is then divided by the remaining factor, which is 1 if the number
/// of ranks is a power of two. The product is exact except for subnormal numbers, so the result is
/// the sum divided by the number of ranks, and as precise (docs/floating-point.md).
template <class T>
class Reducer {
 public:
  using A = Accumulated<T>;
  template <std::size_t Lanes>
  struct Accumulator {
    A lane[Lanes];
  };

  PLAIT_ELEMENT explicit Reducer(const Reduction& reduction) : op_(reduction.op) {
    if constexpr (floating) {
      if (op_ == ReduceOp::premul_sum) factor_ = static_cast<A>(reduction.scale);
      if (op_ == ReduceOp::avg) {
        for (int ranks = 1; ranks < reduction.ranks; ranks *= 2) factor_ *= static_cast<A>(0.5);
      }
    }
    if constexpr (has_either_sign) {
      if (reduction.elements == Elements::signed_integers)
        sign_bit_ = static_cast<A>(A{1} << (8 * sizeof(A) - 1));
    }
    ranks_ = reduction.ranks;
    tree_ = reduction.tree;
  }
  /// Whether terms are added in a tree. Of integers, any order has the same sum.
  static constexpr bool has_trees = is_float(data_type_of<T>);
  PLAIT_ELEMENT bool in_tree() const { return has_trees && tree_; }
  /// Whether `start` changes terms.
  PLAIT_ELEMENT bool multiplies() const {
    return op_ == ReduceOp::premul_sum || op_ == ReduceOp::avg;
  }

  /// A rank's own term.
  template <std::size_t Bytes>
  PLAIT_ELEMENT auto start(const Pack<T, Bytes>& pack) const {
    auto acc = widened(pack);
    if constexpr (floating) {
      if (multiplies()) multiply(acc);
    } else {
      if (op_ >= ReduceOp::land) make_logical(acc);
    }
    return acc;
  }

  /// Adds another rank's term, which has travelled unconverted.
  template <std::size_t Bytes, std::size_t Lanes = Pack<T, Bytes>::lanes>
  PLAIT_ELEMENT void add(Accumulator<Lanes>& acc, const Pack<T, Bytes>& pack) const {
    auto term = start(pack);
    combine(acc, term);
  }

  /// `add` for several packs with one branch for all of them.
  template <std::size_t Bytes, std::size_t Lanes, int Count>
  PLAIT_ELEMENT void add_each(Accumulator<Lanes> (&acc)[Count],
                              const Pack<T, Bytes> (&packs)[Count]) const {
    if (op_ == ReduceOp::sum || (!floating && op_ == ReduceOp::avg)) {
      PLAIT_UNROLL
      for (int k = 0; k < Count; ++k) {
        const auto term = widened(packs[k]);
        add_lanes(acc[k].lane, term.lane);
      }
      return;
    }
    PLAIT_UNROLL
    for (int k = 0; k < Count; ++k) add(acc[k], packs[k]);
  }

  /// The result, given the sum of all terms.
  template <std::size_t Bytes, std::size_t Lanes>
  PLAIT_ELEMENT Pack<T, Bytes> finish(Accumulator<Lanes> acc) const {
    average(acc);
    return rounded<Bytes>(acc);
  }
  /// The last step of `avg` on a sum of all terms; does nothing for other operations. `finish` is
  /// this followed by `rounded`.
  template <std::size_t Lanes>
  PLAIT_ELEMENT void average(Accumulator<Lanes>& acc) const {
    if (op_ != ReduceOp::avg) return;
    if constexpr (floating) {
      const A divisor = static_cast<A>(ranks_) * factor_;
      if (divisor == A{1}) return;
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; ++i) acc.lane[i] = acc.lane[i] / divisor;
    } else {
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; ++i) acc.lane[i] = divide(acc.lane[i]);
    }
  }

  // Partial results that travel between ranks in the data type.

  /// A partial result that has travelled.
  template <std::size_t Bytes>
  PLAIT_ELEMENT auto widened(const Pack<T, Bytes>& partial) const {
    Accumulator<Pack<T, Bytes>::lanes> acc;
    if constexpr (converted_in_pairs<T>) {
      static_assert(Pack<T, Bytes>::lanes % 2 == 0);
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Pack<T, Bytes>::lanes; i += 2)
        widen_pair(partial.lane[i], partial.lane[i + 1], acc.lane[i], acc.lane[i + 1]);
    } else if constexpr (std::is_same_v<T, A>) {
      copy_lanes(partial.lane, acc.lane);
    } else {
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Pack<T, Bytes>::lanes; ++i) acc.lane[i] = widen(partial.lane[i]);
    }
    return acc;
  }
  template <std::size_t Bytes, std::size_t Lanes = Pack<T, Bytes>::lanes>
  PLAIT_ELEMENT void add_partial(Accumulator<Lanes>& acc, const Pack<T, Bytes>& partial) const {
    combine(acc, widened(partial));
  }
  /// The partial result as it travels.
  template <std::size_t Bytes, std::size_t Lanes>
  PLAIT_ELEMENT Pack<T, Bytes> rounded(const Accumulator<Lanes>& acc) const {
    Pack<T, Bytes> pack;
    if constexpr (converted_in_pairs<T> || (rounded_in_pairs<T> && Lanes % 2 == 0)) {
      static_assert(Lanes % 2 == 0);
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; i += 2)
        narrow_pair(acc.lane[i], acc.lane[i + 1], pack.lane[i], pack.lane[i + 1]);
    } else if constexpr (std::is_same_v<T, A>) {
      with_one_nan(acc.lane, pack.lane);
    } else {
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; ++i) pack.lane[i] = narrow<T>(acc.lane[i]);
    }
    return pack;
  }

 private:
  static constexpr bool floating = is_float(data_type_of<T>);
  static constexpr bool has_either_sign = std::is_unsigned_v<A>;

  template <std::size_t Lanes>
  PLAIT_ELEMENT void multiply(Accumulator<Lanes>& acc) const {
    PLAIT_UNROLL
    for (std::size_t i = 0; i < Lanes; ++i) acc.lane[i] = acc.lane[i] * factor_;
  }
  /// 1 for true and 0 for false. Then logical operations are those on bits.
  template <std::size_t Lanes>
  PLAIT_ELEMENT void make_logical(Accumulator<Lanes>& acc) const {
    combine_lanes(acc.lane, acc.lane, [](auto a, auto) {
      if constexpr (taken_as_words<A, Lanes>) {
        return LanesInWord<A>::are_set(a);
      } else {
        return a != 0 ? A{1} : A{0};
      }
    });
  }
  PLAIT_ELEMENT A divide(A x) const {
    if constexpr (floating) {
      return x;
    } else if constexpr (std::is_signed_v<A>) {
      // GPUs divide by calling a function, and the one for 64 bits is long.
      using Wide = std::conditional_t<(sizeof(A) < 8), std::int32_t, std::int64_t>;
      return static_cast<A>(x / static_cast<Wide>(ranks_));
    } else {
      using Wide = std::conditional_t<(sizeof(A) < 8), std::uint32_t, std::uint64_t>;
      const bool negative = (x & sign_bit_) != 0;
      const A magnitude = negative ? static_cast<A>(Wide{0} - x) : x;
      const auto quotient = static_cast<A>(magnitude / static_cast<Wide>(ranks_));
      return negative ? static_cast<A>(Wide{0} - quotient) : quotient;
    }
  }
  /// Maps integers of the reduction's signedness to unsigned ones in the same order, and back.
  PLAIT_ELEMENT A ordered(A x) const {
    if constexpr (has_either_sign) {
      return static_cast<A>(x ^ sign_bit_);
    } else {
      return x;
    }
  }
  /// min and max.
  template <std::size_t Lanes>
  PLAIT_ELEMENT void select(Accumulator<Lanes>& acc, const Accumulator<Lanes>& term) const {
    if constexpr (taken_as_words<A, Lanes>) {
      const std::uint32_t flip = sign_bit_ != 0 ? LanesInWord<A>::high : 0,
                          smaller = op_ == ReduceOp::min ? ~std::uint32_t{0} : 0;
      combine_lanes(acc.lane, term.lane, [flip, smaller](std::uint32_t a, std::uint32_t b) {
        const std::uint32_t first = LanesInWord<A>::are_not_less(a ^ flip, b ^ flip) ^ smaller;
        return (a & first) | (b & ~first);
      });
    } else if (op_ == ReduceOp::min) {
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; ++i)
        acc.lane[i] = ordered(reduce_min(ordered(acc.lane[i]), ordered(term.lane[i])));
    } else {
      PLAIT_UNROLL
      for (std::size_t i = 0; i < Lanes; ++i)
        acc.lane[i] = ordered(reduce_max(ordered(acc.lane[i]), ordered(term.lane[i])));
    }
  }
  template <std::size_t Lanes>
  PLAIT_ELEMENT void combine(Accumulator<Lanes>& acc, const Accumulator<Lanes>& term) const {
    switch (op_) {
      case ReduceOp::prod:
        PLAIT_UNROLL
        for (std::size_t i = 0; i < Lanes; ++i)
          acc.lane[i] = reduce_prod(acc.lane[i], term.lane[i]);
        break;
      case ReduceOp::min:
      case ReduceOp::max:
        select(acc, term);
        break;
      case ReduceOp::sum:
      case ReduceOp::avg:
      case ReduceOp::premul_sum:
        add_lanes(acc.lane, term.lane);
        break;
      default:
        if constexpr (!floating) {
          combine_bits(acc, term);
        }
    }
  }
  /// `and`, `or` and `xor`, by the same instructions.
  template <std::size_t Lanes>
  PLAIT_ELEMENT void combine_bits(Accumulator<Lanes>& acc, const Accumulator<Lanes>& term) const {
    const bool is_and = op_ == ReduceOp::band || op_ == ReduceOp::land,
               is_xor = op_ == ReduceOp::bxor || op_ == ReduceOp::lxor;
    using Word = std::conditional_t<taken_as_words<A, Lanes>, std::uint32_t, A>;
    const Word common = static_cast<Word>(is_xor ? 0 : -1),
               different = static_cast<Word>(is_and ? 0 : -1);
    combine_lanes(acc.lane, term.lane, [common, different](auto a, auto b) {
      return (a & b & common) | ((a ^ b) & different);
    });
  }

  ReduceOp op_;
  bool tree_ = false;
  int ranks_ = 1;
  A factor_ = A{1};    // multiplies each term
  A sign_bit_ = A{0};  // set if the elements are signed integers but T is unsigned
};

// Sums in a binary tree over the ranks (SumOrder::tree): neighbours are added, then neighbouring
// sums, and so on; what has no neighbour stays as it is. Each sum is rounded to the type of the
// terms, as if it had travelled.

/// Terms that kernels add up in a tree. On a GPU they are in registers.
inline constexpr int most_in_tree = 8, most_in_tree_on_host = 64;

/// A term as a leaf of the tree. Those that are not multiplied need no rounding.
template <class R, class P>
PLAIT_ELEMENT P leaf_of_tree(const R& reducer, const P& term) {
  if (!reducer.multiplies()) return term;
  return reducer.template rounded<sizeof(P)>(reducer.start(term));
}
template <class R, class P>
PLAIT_ELEMENT P joined_in_tree(const R& reducer, const P& left, const P& right) {
  auto sum = reducer.widened(left);
  reducer.add_partial(sum, right);
  return reducer.template rounded<sizeof(P)>(sum);
}

/// Adds the first `count` terms, at least one. The result comes to terms[0], the others are lost.
template <int Terms, class R, class P>
PLAIT_ELEMENT void add_in_tree(const R& reducer, P (&terms)[Terms], int count) {
  PLAIT_UNROLL
  for (int s = 0; s < Terms; ++s) {
    if (s >= count) break;
    terms[s] = leaf_of_tree(reducer, terms[s]);
  }
  PLAIT_UNROLL
  for (int span = 1; span < Terms; span *= 2) {
    PLAIT_UNROLL
    for (int s = 0; s + span < Terms; s += 2 * span) {
      if (s + span >= count) break;
      terms[s] = joined_in_tree(reducer, terms[s], terms[s + span]);
    }
  }
  terms[0] = reducer.template finish<sizeof(P)>(reducer.widened(terms[0]));
}

/// The sum of packs, of which load(r) is rank r's, one after the other.
template <class P, class R, class Load>
PLAIT_ELEMENT P sum_in_turn(const R& reducer, int ranks, Load load) {
  auto sum = reducer.start(load(0));
  for (int r = 1; r < ranks; ++r) reducer.add(sum, load(r));
  return reducer.template finish<sizeof(P)>(sum);
}
/// The same in a tree, of up to `most_in_tree` ranks. One term is loaded after the other, too: less
/// code than `add_in_tree`.
template <class P, class R, class Load>
PLAIT_ELEMENT P sum_in_tree(const R& reducer, int ranks, Load load) {
  constexpr int levels = 4;
  P waiting[levels];  // sums of 1, 2, 4 and 8 terms whose neighbour is still to come
  PLAIT_NO_UNROLL
  for (int r = 0; r < ranks; ++r) {
    P sum = leaf_of_tree(reducer, load(r));
    bool joins = true;
    PLAIT_UNROLL
    for (int level = 0; level < levels; ++level) {
      if (!joins) continue;
      joins = (r >> level & 1) != 0;
      if (joins) sum = joined_in_tree(reducer, waiting[level], sum);
      else waiting[level] = sum;
    }
  }
  P sum{};
  bool any = false;
  PLAIT_UNROLL
  for (int level = 0; level < levels; ++level) {
    if ((ranks >> level & 1) == 0) continue;
    sum = any ? joined_in_tree(reducer, waiting[level], sum) : waiting[level];
    any = true;
  }
  return reducer.template finish<sizeof(P)>(reducer.widened(sum));
}

}  // namespace plait
