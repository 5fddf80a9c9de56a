// Reduce-scatter in marked data: one hop, no flags, no barrier, any memory.
//
// A block of the message is cut into one stripe per thread block, and a stripe into rounds of at
// most `lane` units of 16 bytes. For each round, a thread
//   1. sends its units of block p to rank p, for every peer p;
//   2. takes the same units of all peers' blocks for this rank, adds them to its own in rank order
//      and stores the result.
// Step 1 of a round comes before step 2 of the one before it, so that the links do not rest while a
// round ends.
//
// Cost: one hop. (n - 1) blocks leave each rank.
// Resources: 4 sets * thread blocks * (n - 1) lanes of slots, one counter per thread block.
//
// Why no barrier is needed: algorithms/blocks/flags/marked.hpp, where S is 1 and R is 2. A round
// has a unit, so every rank sends to every peer.
//
// In place is safe: the output is this rank's own block, of which it sends nothing. A thread loads
// its units there before it stores their results, and no other thread handles them.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/marked.hpp"

namespace plait::direct_sentinel {

using Types = MarkedTypes;
using Args = MarkedArgs;

template <class T, int Ranks, class D>
class ReduceScatter {
 public:
  static constexpr int phases = 1;

  PLAIT_DEVICE ReduceScatter(D& dev, const Args& a) : x_(dev, a) {}

  PLAIT_DEVICE void run() { x_.run(x_.a.lane, *this); }

  PLAIT_DEVICE std::uint32_t each(Range round) const {
    return static_cast<std::uint32_t>(round.size());
  }

  template <bool Whole, int Depth>
  PLAIT_DEVICE void send(Range round, std::uint32_t number, std::uint32_t i) const {
    x_.template scatter<Whole, Depth>(*this, round, number, i);
  }

  template <int, bool Whole, int Depth>
  PLAIT_DEVICE bool take(Range round, std::uint32_t number, std::uint32_t i) const {
    Marked own[Depth];
    PLAIT_UNROLL
    for (int d = 0; d < Depth; ++d) own[d] = load<Whole>(round, x_.a.rank, x_.place(i, d));
    return x_.template add_taken<Depth>(number, i, own, [&](int d, Marked result) {
      x_.template store<Whole>(round.begin + x_.place(i, d), result);
    });
  }

  template <bool Whole>
  PLAIT_DEVICE Marked load(Range round, int block, std::uint32_t i) const {
    return x_.template load<Whole>(round.begin + i, block);
  }

 private:
  MarkedExchange<T, Ranks, D> x_;
};

template <class T>
struct Kernel : MarkedKernel<ReduceScatter, T> {};

}  // namespace plait::direct_sentinel
