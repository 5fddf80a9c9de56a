// Sums of several buffers, perhaps of other ranks, by the threads of a block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "algorithms/blocks/loops/pack_loop.hpp"
#include "backends/device/device.hpp"
#include "backends/device/pack.hpp"
#include "backends/device/untyped.hpp"

namespace plait {

/// Adds `terms` buffers of `count` elements, those of ranks in their order. term(r) is the address
/// of rank r's. Threads keep so many loads on their way that all links are busy, although all ranks
/// begin with rank 0's.
template <class T, Device D, class Term>
class BufferSum {
 public:
  using P = Pack<T, D::pack_bytes>;

  /// `whole`: the packs before this one are complete and aligned in all terms and results.
  PLAIT_DEVICE BufferSum(D& dev, Term term, int terms, std::size_t count, std::size_t whole,
                         const Reduction& reduction)
      : dev_(dev),
        term_(term),
        terms_(terms),
        count_(count),
        whole_(whole),
        op_(reduction.op),
        reducer_(reduction) {}

  /// Stores the sums of this thread's packs of a range in the buffers result(i), for i below
  /// `results`. With 2, 4 or 8 terms, all are loaded before the first is used.
  template <class Result>
  PLAIT_DEVICE void run(Range packs, int results, Result result) {
    if constexpr (is_untyped<T>) {
      reducer_.sum(dev_, packs, count_, terms_, terms_, term_, results, result, true);
    } else if (reducer_.in_tree()) {
      run_in_tree(packs, stores(results, result));
    } else {
      add_up(packs, stores(results, result));
    }
  }
  /// The same with one term after the other: less code, for terms that are near.
  template <class Result>
  PLAIT_DEVICE void run_in_turn(Range packs, int results, Result result) {
    if constexpr (is_untyped<T>) {
      run(packs, results, result);
    } else {
      add_in_turn(packs, stores(results, result));
    }
  }

 private:
  /// Loads in flight per thread, for any number of terms. Half as many for 8-bit elements, whose
  /// sums take four times their room.
  static constexpr int in_flight = sizeof(T) == 1 ? 8 : 16;

  /// A function store<Whole>(i, sums), where sums[u] is that of pack i + u * threads. All by value:
  /// of what is captured by reference, clang forgets that its pointers are to global memory.
  template <class Result>
  PLAIT_DEVICE auto stores(int results, Result result) const {
    return [&dev = dev_, count = count_, results, result]<bool Whole, int Count>(
               std::size_t i, const P(&sums)[Count]) {
      for (int k = 0; k < results; ++k)
        store_packs<Whole>(dev, Packs<T, D::pack_bytes>(result(k), count), i, sums);
    };
  }

  template <class Store>
  PLAIT_DEVICE void add_up(Range packs, Store store) {
    // A CPU has registers for two packs of a cache line, and keeps loads in flight by itself.
    if constexpr (D::pack_bytes >= 64) {
      return terms_ == 2   ? run_known<2, 1>(packs, store)
             : terms_ == 1 ? run_known<1, 1>(packs, store)
                           : add_in_turn(packs, store);
    } else {
      switch (terms_) {
        case 2:
          return run_known<2, in_flight / 2>(packs, store);
        case 4:
          return run_known<4, in_flight / 4>(packs, store);
        case 8:
          return run_known<8, in_flight / 8>(packs, store);
        default:
          return run_known<0, in_flight / 4>(packs, store);
      }
    }
  }
  template <class Store>
  PLAIT_DEVICE void add_in_turn(Range packs, Store store) {
    run_known<0, (D::pack_bytes >= 64 ? 1 : in_flight / 2)>(packs, store);
  }

  /// `Terms`: their number, or 0 for any. `Unroll` packs of each term are in flight together.
  template <int Terms, int Unroll, class Store>
  PLAIT_DEVICE void run_known(Range packs, Store store) {
    // The compiler sees the operation of this reducer, so sums stay in registers. With a branch per
    // pack they were in memory.
    if constexpr (D::pack_bytes >= 64) {
      if (op_ == ReduceOp::sum)
        return run_with<Terms, Unroll>(Reducer<T>(Reduction{}), packs, store);
    }
    run_with<Terms, Unroll>(reducer_, packs, store);
  }
  template <int Terms, int Unroll, class Store>
  PLAIT_DEVICE void run_with(const Reducer<T>& reducer, Range packs, Store store) {
    const std::size_t whole = packs.end < whole_ ? packs.end : whole_, step = dev_.threads();
    std::size_t i = packs.begin + dev_.thread();
    for (; i + (Unroll - 1) * step < whole; i += Unroll * step)
      add_whole<Terms, Unroll>(reducer, i, store);
    for (; i < whole; i += step) add_whole<Terms, 1>(reducer, i, store);
    for (; i < packs.end; i += step) add_one(i, store);
  }

  template <class Store>
  PLAIT_DEVICE void run_in_tree(Range packs, Store store) {
    std::size_t i = packs.begin + dev_.thread();
    // Sums of 8-bit floats take so much room that the terms would not stay in registers.
    if constexpr (sizeof(T) > 1) {
      const std::size_t whole = packs.end < whole_ ? packs.end : whole_;
      for (; i < whole; i += dev_.threads()) {
        P terms[most_in_tree];
        PLAIT_UNROLL
        for (int r = 0; r < most_in_tree; ++r)
          if (r < terms_) terms[r] = dev_.load(reinterpret_cast<const P*>(term_(r)) + i);
        add_in_tree(reducer_, terms, terms_);
        const P sums[1] = {terms[0]};
        store.template operator()<true>(i, sums);
      }
    }
    for (; i < packs.end; i += dev_.threads()) add_one(i, store);
  }

  /// Adds the complete, aligned packs i, i + threads, ..., `Unroll` of them.
  template <int Terms, int Unroll, class Store>
  PLAIT_DEVICE void add_whole(const Reducer<T>& reducer, std::size_t i, Store store) {
    // Terms whose packs are all loaded before the first is used.
    constexpr int known = Terms == 0 ? 1 : Terms;
    P packs[known][Unroll];
    PLAIT_UNROLL
    for (int s = 0; s < known; ++s) load(s, i, packs[s]);

    using Sum = decltype(reducer.start(packs[0][0]));
    Sum sum[Unroll];
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) sum[u] = reducer.start(packs[0][u]);
    PLAIT_UNROLL
    for (int s = 1; s < known; ++s) reducer.add_each(sum, packs[s]);
    if constexpr (Terms == 0) {
      for (int s = 1; s < terms_; ++s) {
        load(s, i, packs[0]);
        reducer.add_each(sum, packs[0]);
      }
    }

    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[0][u] = reducer.template finish<sizeof(P)>(sum[u]);
    store.template operator()<true>(i, packs[0]);
  }

  template <int Unroll>
  PLAIT_DEVICE void load(int s, std::size_t i, P (&packs)[Unroll]) {
    const P* const from = reinterpret_cast<const P*>(term_(s)) + i;
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[u] = dev_.load(from + std::size_t(u) * dev_.threads());
  }

  /// Adds one pack of any alignment, perhaps the partial last one.
  template <class Store>
  PLAIT_DEVICE void add_one(std::size_t i, Store store) {
    const auto term = [&](int r) PLAIT_INLINED {
      return Packs<const T, D::pack_bytes>(term_(r), count_).load(dev_, i);
    };
    const P sums[1] = {reducer_.in_tree() ? sum_in_tree<P>(reducer_, terms_, term)
                                          : sum_in_turn<P>(reducer_, terms_, term)};
    store.template operator()<false>(i, sums);
  }

  D& dev_;
  Term term_;
  int terms_;
  std::size_t count_, whole_;
  ReduceOp op_;
  Reducer<T> reducer_;
};

}  // namespace plait
