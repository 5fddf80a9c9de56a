// Two-shot all-reduce in marked data: two hops, no flags, no barrier, any memory.
//
// The message is cut into one stripe per block, a stripe into rounds, and a round into n slices of
// at most `lane` units of 16 bytes. For each round, a thread
//   1. scatters: sends its units of slice p to rank p, for every peer p;
//   2. reduces: takes all peers' units of the rank's own slice, adds them to its own in rank order,
//      sends the result to every peer and stores it;
//   3. gathers: takes the results of all other slices and stores them.
// The scatter of a round comes before the reduction of the one before it, so that the links do not
// rest while a round ends.
//
// Cost: two hops. 2 (n - 1) / n * bytes leave each rank.
// Resources: 4 sets * blocks * 2 (n - 1) lanes of slots, one counter per block.
//
// Why no barrier is needed: algorithms/blocks/flags/marked.hpp. A unit says itself that it has
// arrived. S is 1, R is 2 and 3. Every rank sends to every peer in 1, because a slice has a unit
// even if the message ends before it: a unit of any data, which is taken and not stored.
//
// In place is safe: a thread sends all its inputs of a round in 1, and loads those of its own slice
// in 2, before it stores a result there. No other thread handles its units. (For a unit beyond
// the end of a round, it loads its own one of slice 0 instead.)
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::twoshot_sentinel {

using Types = MarkedTypes;
using Args = MarkedArgs;

template <class T, int Ranks, class D>
class Twoshot {
 public:
  static constexpr int phases = 2;

  PLAIT_DEVICE Twoshot(D& dev, const Args& a) : x_(dev, a) {}

  PLAIT_DEVICE void run() { x_.run(x_.a.lane * static_cast<std::uint32_t>(x_.ranks()), *this); }

  /// Units of a slice. The last slices may be shorter, or empty. All the same, every slice has so
  /// many units: those beyond the end of the round carry any data and are not stored.
  PLAIT_DEVICE std::uint32_t each(Range round) const {
    const auto n = static_cast<std::uint32_t>(x_.ranks());
    return (static_cast<std::uint32_t>(round.size()) + n - 1) / n;
  }

  template <bool Whole, int Depth>
  PLAIT_DEVICE void send(Range round, std::uint32_t number, std::uint32_t i) const {
    x_.template scatter<Whole, Depth>(*this, round, number, i);
  }

  template <int Phase, bool Whole, int Depth>
  PLAIT_DEVICE bool take(Range round, std::uint32_t number, std::uint32_t i) const {
    if constexpr (Phase == 0) {
      return reduce<Whole, Depth>(round, number, i);
    } else {
      return gather<Whole, Depth>(round, number, i);
    }
  }

  /// Without a branch, so that the loads of several units are in flight together.
  template <bool Whole>
  PLAIT_DEVICE Marked load(Range round, int slice, std::uint32_t i) const {
    const std::size_t wanted = unit(round, slice, i);
    return x_.template load<Whole>(wanted < round.end ? wanted : unit(round, 0, i));
  }

 private:
  using Exchange = MarkedExchange<T, Ranks, D>;
  static constexpr int together = Exchange::together;

  /// Not by `add_taken`: with that, two ranks took 16.5 us instead of 15.6 for 4 MB (2 H100, bf16,
  /// 2026-11-25; the compiler orders the loop otherwise and uses 85 registers instead of 94).
  template <bool Whole, int Depth>
  PLAIT_DEVICE bool reduce(Range round, std::uint32_t number, std::uint32_t i) const {
    Marked own[Depth];
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) own[d] = load<Whole>(round, x_.a.rank, x_.place(i, d));
    typename Exchange::template Taken<Depth> data;
    if constexpr (Ranks == 0) {
      typename Exchange::Sum sum;
      for (int begin = 0; begin < x_.a.ranks; begin += together) {
        if (!x_.template take<Depth>(number, false, i, begin, data)) return false;
        x_.add(sum, begin, own[0], data);
      }
      publish<Whole>(round, number, i, x_.result(sum));
    } else {
      if (!x_.template take<Depth>(number, false, i, 0, data)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < Depth; ++d) {
        typename Exchange::Sum sum;
        x_.add(sum, 0, own[d], data + d * together);
        publish<Whole>(round, number, x_.place(i, d), x_.result(sum));
      }
    }
    x_.template empty<Depth>(number, false, i);
    return true;
  }
  template <bool Whole>
  PLAIT_DEVICE void publish(Range round, std::uint32_t number, std::uint32_t i,
                            Marked result) const {
    const Marked data = marked_result(result);
    if constexpr (Ranks == 0) {
      for (int k = 0; k < x_.a.ranks - 1; ++k) x_.put(k, number, true, i, data);
    } else {
      PLAIT_UNROLL
      for (int k = 0; k < Ranks - 1; ++k) x_.put(k, number, true, i, data);
    }
    store<Whole>(round, x_.a.rank, i, result);
  }

  template <bool Whole, int Depth>
  PLAIT_DEVICE bool gather(Range round, std::uint32_t number, std::uint32_t i) const {
    for (int begin = 0; begin < (Ranks == 0 ? x_.a.ranks : 1); begin += together) {
      typename Exchange::template Taken<Depth> data;
      if (!x_.template take<Depth>(number, true, i, begin, data)) return false;
      PLAIT_UNROLL
      for (int d = 0; d < Depth; ++d) {
        PLAIT_UNROLL
        for (int j = 0; j < together; ++j) {
          if (x_.is_peer(begin, j))
            store<Whole>(round, x_.writer(begin, j), x_.place(i, d),
                         unmarked(data[d * together + j]));
        }
      }
    }
    x_.template empty<Depth>(number, true, i);
    return true;
  }

  PLAIT_DEVICE std::size_t unit(Range round, int slice, std::uint32_t i) const {
    return round.begin + static_cast<unsigned>(slice) * each(round) + i;
  }
  template <bool Whole>
  PLAIT_DEVICE void store(Range round, int slice, std::uint32_t i, Marked bits) const {
    if (unit(round, slice, i) < round.end) x_.template store<Whole>(unit(round, slice, i), bits);
  }

  Exchange x_;
};

template <class T>
struct Kernel : MarkedKernel<Twoshot, T> {};

}  // namespace plait::twoshot_sentinel
