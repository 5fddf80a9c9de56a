// One-shot all-reduce in marked data: one hop, no flags, no barrier, any memory.
//
// The message is cut into one stripe per block, and a stripe into rounds of at most `lane` units of
// 16 bytes. For each round, a thread
//   1. sends its units to every peer;
//   2. takes the same units of all peers, adds them to its own in rank order and stores the result.
// Step 1 of a round comes before step 2 of the one before it, so that the links do not rest while a
// round ends.
//
// Cost: one hop. (n - 1) * bytes leave each rank.
// Resources: 4 sets * blocks * (n - 1) lanes of slots, one counter per block.
//
// Why no barrier is needed: algorithms/blocks/flags/marked.hpp, where S is 1 and R is 2. A round
// has a unit, so every rank sends to every peer.
//
// In place is safe: a thread sends and loads an input before it stores the result there. No other
// thread handles its units.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::oneshot_sentinel {

using Types = MarkedTypes;
using Args = MarkedArgs;

template <class T, int Ranks, class D>
class Oneshot {
 public:
  static constexpr int phases = 1;

  PLAIT_DEVICE Oneshot(D& dev, const Args& a) : x_(dev, a) {}

  PLAIT_DEVICE void run() { x_.run(x_.a.lane, *this); }

  PLAIT_DEVICE std::uint32_t each(Range round) const {
    return static_cast<std::uint32_t>(round.size());
  }

  template <bool Whole, int Depth>
  PLAIT_DEVICE void send(Range round, std::uint32_t number, std::uint32_t i) const {
    Marked own[Depth];
    load<Whole>(round, i, own);
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) {
      const Marked data = marked(own[d]);
      if constexpr (Ranks == 0) {
        for (int k = 0; k < x_.a.ranks - 1; ++k) x_.put(k, number, false, x_.place(i, d), data);
      } else {
        PLAIT_UNROLL
        for (int k = 0; k < Ranks - 1; ++k) x_.put(k, number, false, x_.place(i, d), data);
      }
    }
  }

  template <int, bool Whole, int Depth>
  PLAIT_DEVICE bool take(Range round, std::uint32_t number, std::uint32_t i) const {
    Marked own[Depth];
    load<Whole>(round, i, own);
    return x_.template add_taken<Depth>(number, i, own, [&](int d, Marked result) {
      x_.template store<Whole>(round.begin + x_.place(i, d), result);
    });
  }

 private:
  template <bool Whole, int Depth>
  PLAIT_DEVICE void load(Range round, std::uint32_t i, Marked (&own)[Depth]) const {
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) own[d] = x_.template load<Whole>(round.begin + x_.place(i, d));
  }

  MarkedExchange<T, Ranks, D> x_;
};

template <class T>
struct Kernel : MarkedKernel<Oneshot, T> {};

}  // namespace plait::oneshot_sentinel
