// Terms of reductions whose sums have other bits in another order, and the results in rank order.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/device/numeric.hpp"
#include "plait/call.hpp"
#include "support/data.hpp"

namespace plait::test {

/// The first `terms` of what leaf(i) gives, joined by join(a, b): one after the other, or in the
/// binary tree of SumOrder::tree, whose left half is a power of two.
template <class Leaf, class Join>
auto joined(SumOrder order, int terms, Leaf leaf, Join join, int begin = 0) -> decltype(leaf(0)) {
  if (terms == 1) return leaf(begin);
  int left = terms - 1;
  if (order == SumOrder::tree)
    for (left = 1; 2 * left < terms; left *= 2) {
    }
  return join(joined(order, left, leaf, join, begin),
              joined(order, terms - left, leaf, join, begin + left));
}

/// Element i of a message has the terms number i % period, so each set of terms comes at many
/// places of a message.
template <class T>
class Terms {
 public:
  static constexpr std::size_t period = 251;  // a prime: packs, chunks and slices move against it
  static constexpr double scale = 0.7;        // of premul_sum

  explicit Terms(int ranks) : ranks_(ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < period; ++i) terms_.push_back(make(rank, i));
  }

  /// Those of so many ranks, each the tree of a part of `all`.
  Terms(const Terms& all, ReduceOp op, int ranks) : ranks_(ranks) {
    const int part = all.ranks_ / ranks;
    for (int rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < period; ++i) terms_.push_back(all.tree(op, i, part * rank, part));
  }

  int ranks() const { return ranks_; }
  T term(int rank, std::size_t i) const {
    return terms_[static_cast<std::size_t>(rank) * period + i % period];
  }

  /// What docs/same-bits.md promises: the terms in the order of their ranks, in the type of
  /// accumulators, rounded once. In a scan, those of the first ranks.
  T in_rank_order(ReduceOp op, std::size_t i) const { return in_rank_order(op, i, ranks_); }
  T in_rank_order(ReduceOp op, std::size_t i, int first_ranks) const {
    std::vector<int> order(static_cast<std::size_t>(first_ranks));
    std::iota(order.begin(), order.end(), 0);
    return reduced(op, i, order, false);
  }
  /// What docs/same-bits.md promises for the order.
  T in_order(SumOrder order, ReduceOp op, std::size_t i, int first_ranks) const {
    if (order != SumOrder::tree) return in_rank_order(op, i, first_ranks);
    const T sum = tree(op, i, 0, first_ranks);
    if (op != ReduceOp::avg) return sum;
    const auto divisor = static_cast<A>(ranks_) * factor(op);
    return divisor == A{1} ? sum : narrow<T>(widen(sum) / divisor);
  }
  /// In the order of `ranks`. `hops`: partial results are rounded to T, as if they travelled.
  T reduced(ReduceOp op, std::size_t i, const std::vector<int>& ranks, bool hops) const {
    A sum = scaled(op, ranks[0], i);
    for (std::size_t r = 1; r < ranks.size(); ++r) {
      if (hops) sum = widen(narrow<T>(sum));
      sum = combined(op, sum, scaled(op, ranks[r], i));
    }
    if (const A divisor = static_cast<A>(ranks_) * factor(op);
        op == ReduceOp::avg && divisor != A{1})
      sum = sum / divisor;
    return narrow<T>(sum);
  }

  /// How many of the sets of terms give other bits in that order.
  std::size_t differing(ReduceOp op, const std::vector<int>& order, bool hops) const {
    std::size_t number = 0;
    for (std::size_t i = 0; i < period; ++i)
      if (bits(reduced(op, i, order, hops)) != bits(in_rank_order(op, i))) ++number;
    return number;
  }

  static BitsOf<T> bits(T x) { return bits_as<BitsOf<T>>(x); }

 private:
  using A = Accumulated<T>;

  A factor(ReduceOp op) const {
    A factor = op == ReduceOp::premul_sum ? static_cast<A>(scale) : A{1};
    if (op == ReduceOp::avg)
      for (int power = 1; power < ranks_; power *= 2) factor /= 2;
    return factor;
  }
  A scaled(ReduceOp op, int rank, std::size_t i) const {
    volatile A x = static_cast<A>(widen(term(rank, i)) * factor(op));  // no fused multiply-add
    return A{x};
  }
  static A combined(ReduceOp op, A sum, A next) {
    return op == ReduceOp::prod  ? sum * next
           : op == ReduceOp::min ? reduce_min(sum, next)
           : op == ReduceOp::max ? reduce_max(sum, next)
                                 : sum + next;
  }
  /// Before the division of an average.
  T tree(ReduceOp op, std::size_t i, int first, int number) const {
    return joined(
        SumOrder::tree, number, [&](int rank) { return narrow<T>(scaled(op, rank, i)); },
        [&](T a, T b) { return narrow<T>(combined(op, widen(a), widen(b))); }, first);
  }

  T make(int rank, std::size_t i) const {
    const std::uint64_t h = hash(31, static_cast<std::uint64_t>(rank), i), of_all = hash(32, 0, i);
    switch (i % 4) {
      case 0:
        return wide<T>(h, spread);
      case 1: {  // two ranks cancel each other, so small terms between them lose bits that count
        const int first = static_cast<int>(of_all % static_cast<unsigned>(ranks_)),
                  last = static_cast<int>((of_all >> 8) % static_cast<unsigned>(ranks_));
        if (first != last && (rank == first || rank == last))
          return to<T>((rank == first ? 1 : -1) * std::ldexp(1.0, great));
        return to<T>(std::ldexp(widen(wide<T>(h, 1)), small));
      }
      case 2:  // any bits: NaNs, infinities, subnormal numbers
        return bits_as<T>(static_cast<BitsOf<T>>(h));
      default:  // zeros of either sign, and few other numbers
        return to<T>(h % 4 == 0 ? 1.0 : h % 2 == 0 ? 0.0 : -0.0);
    }
  }

  static constexpr bool is_small = sizeof(T) == 1, is_f16 = std::is_same_v<T, f16>,
                        is_f64 = std::is_same_v<T, double>;
  static constexpr int spread = is_small ? 3 : is_f16 ? 8 : is_f64 ? 40 : 20;
  static constexpr int great = std::is_same_v<T, f8e4m3>             ? 8
                               : is_f16 || std::is_same_v<T, f8e5m2> ? 14
                               : is_f64                              ? 50
                                                                     : 28,
                       small = std::is_same_v<T, f8e4m3>   ? -3
                               : std::is_same_v<T, f8e5m2> ? -11
                               : is_f16                    ? -8
                                                           : 0;

  int ranks_;
  std::vector<T> terms_;
};

}  // namespace plait::test
