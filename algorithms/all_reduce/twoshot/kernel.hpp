// Two-shot all-reduce on symmetric memory: middle to large messages, no scratch memory. Every byte
// crosses a link once in each direction.
//
// The message is cut into one slice per rank, and a slice into one stripe per block.
//   1. Enter: a barrier among blocks b of all ranks. After it, all inputs are ready.
//   2. Reduce: a rank pulls its own slice of all inputs and adds them in the order of the ranks.
//   3. Push: it pushes the result to all ranks' outputs, in the same loop, so both directions of
//      the links are busy.
//   4. Leave: a second barrier. After it, all results have arrived and no rank reads inputs any
//      more.
//
// Cost: two hops and 2 (n - 1) / n * bytes out of each rank.
// Resources: one signal word per (block, writer), one epoch per block.
//
// All ranks get the same bits, because one rank sums each element, in the order of the ranks.
//
// Why the two barriers are enough. On all ranks, only block b of rank r reads and writes the
// elements of slice r and stripe b. It needs the inputs, which barrier 1 announces, and delivers
// the outputs, which barrier 2 announces. Stripes and slices have no pack in common, because an
// empty stripe has no packs. In place, a thread has read an element from all ranks before it writes
// it. A barrier joins block b of a rank only with blocks b of the others. A kernel ends when its
// last block has left, so the next work in the stream finds the output complete and the input free.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/sliced_all_reduce.hpp"
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::twoshot {

using Types = InRuns<ReducedTypes>;

using Args = SlicedAllReduce;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    between_barriers<reduce_slice<D>>(dev, a);
  }

 private:
  template <class D>
  using PackOf = Pack<T, D::pack_bytes>;

  PLAIT_DEVICE static const T* input(const Args& a, int rank) {
    return reinterpret_cast<const T*>(a.send.peer_ptr(rank));
  }
  PLAIT_DEVICE static T* output(const Args& a, int rank) {
    return reinterpret_cast<T*>(a.recv.peer_ptr(rank));
  }

  /// Reduces the block's stripe of the rank's slice, from all inputs to all outputs.
  template <Device D>
  PLAIT_DEVICE static void reduce_slice(D& dev, const Args& a) {
    const auto term = [&a](int rank) { return input(a, rank); };
    BufferSum<T, D, decltype(term)> sum(dev, term, a.peers.ranks, a.count,
                                        all_aligned<D>(a) ? a.count / PackOf<D>::lanes : 0,
                                        a.reduction);
    sum.run(a.packs(dev), a.peers.ranks,
            [recv = a.recv, rank = a.peers.rank, ranks = a.peers.ranks](int step) {
              return reinterpret_cast<T*>(recv.peer_ptr(rank_after(rank, step, ranks)));
            });
  }

  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Windows begin at pages on all ranks and offsets are equal, so this rank's pointers are
    // aligned as all others are.
    return (reinterpret_cast<std::uintptr_t>(input(a, a.peers.rank)) |
            reinterpret_cast<std::uintptr_t>(output(a, a.peers.rank))) %
               alignof(PackOf<D>) ==
           0;
  }
};

}  // namespace plait::twoshot
