// All-reduce by copy engines: the largest messages, in symmetric memory. Copies move whole slices,
// one peer at a time, faster than a kernel can. Kernels only add up and keep the ranks in step.
// This file has the kernel of the sums; algorithms/barrier has that of the barriers, and
// copy_engine.cpp the order of kernels and copies.
//
// Out of place. Rank r sums slice r, which has two chunks, a and b. On rank r, the place of slice p
// in the OUTPUT is free until the end: rank p's term of slice r lands there. "Beside" means on a
// second stream.
//   1. Barrier: all outputs are free.
//   2. Scatter: copy slice p to rank p, for p = r + 1, r + 2, ... Of the last of these slices, copy
//      only chunk a.
//   3. Scatter chunk b of that last slice. Beside it: barrier (chunks a have landed everywhere),
//      sum of chunk a, barrier (chunks a are summed everywhere).
//   4. Gather: copy chunk a of the result to rank r + 1. Beside it: barrier (chunks b have landed),
//      sum of chunk b, barrier (chunks b are summed everywhere).
//   5. Gather chunk b to rank r + 1, then the whole slice to ranks r + 2, r + 3, ...
//   6. Barrier: all results have arrived.
// The n slices are equal; the tail of the message after them has less than 64 bytes per rank. Every
// rank pulls and sums the tail for itself, in phase 4.
//
// In place, terms have nowhere to land. Rank r alone reads and writes slice r of every buffer.
//   1. Barrier: all inputs are ready.
//   2. Sum: pull the first chunk of the own slice of all ranks, and write the sum into the own
//      buffer.
//   3. For every further chunk: sum it. Beside it, gather: copy the chunk before it to ranks r + 1,
//      r + 2, ...
//   4. Gather the last chunk.
//   5. Barrier: all results have arrived.
//
// Cost: two hops, 2 n copies per rank, 2 (n - 1) / n * bytes out of each rank. Sums and inner
// barriers are hidden behind copies.
// Resources: one signal word per writer, one epoch.
//
// All ranks get the same bits: one rank sums a slice, all ranks sum the tail, and all in the order
// of the ranks.
//
// Why this is right.
//   - Visibility: a kernel that follows a copy in a stream, or waits for it by an event, does
//     nothing before the copy is complete (those that start early wait first). Its signal is a
//     release at system scope, after the copy; the peer's wait is an acquire; later work in the
//     peer's stream comes after that wait. So "the barrier after X" means that X has happened on
//     all ranks and is visible. One block is enough, because nothing is tied to blocks.
//   - Landing (phases 2 and 3): rank p's term of slice r goes to slice p of rank r's output.
//     Barrier 1 comes after all earlier uses of that output. Slices are equal, so each pair (p, r)
//     has a place of its own, and none is at slice r, where rank r writes its sum.
//   - The sum of chunk x reads the own input and the terms that landed at chunk x. The barrier
//     before it comes after the copies of all ranks. It writes chunk x of slice r of the own
//     output, where nothing lands.
//   - The gather of chunk x by rank r overwrites chunk x of slice r on rank p, where rank r's own
//     term for rank p had landed. The barrier after the sums of chunk x says that rank p has read
//     that term. No other rank writes there. Chunk a goes while chunks b are still summed, because
//     these are other bytes.
//   - Inputs are read by copies and sums of their own rank, and by the peers' sums of the tail,
//     which come before barrier 6 on all ranks. So the input is free when the call ends. Barrier 6
//     comes after all copies into this output.
//   - In place: rank r alone reads slice r of all buffers (sum) and writes it (sum, gather), each
//     chunk in this order. Barrier 1 comes after the inputs, barrier 5 after all pulls and copies.
//     Nothing else is shared.
//   - Deadlock: a rank's barriers follow one another in its streams, in the same order on all
//     ranks, and only the rank's own earlier work comes before each. So all ranks will reach the
//     earliest barrier that some rank has not passed, even if a target runs the two streams as one,
//     in the order of the calls.
//   - Epochs: the barriers of a call, and calls, follow one another in stream order, so one word
//     counts them.
//   - Missing ranks: a barrier that gives up leaves its epoch, and all later kernels signal nothing
//     and wait for nothing. Copies do not look: those already in the streams still run, into the
//     outputs of this call on all ranks, also on a rank that never made the call. They touch
//     nothing else. After a timeout, the results of the calls under way are undefined everywhere.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::copy_engine {

using Types = InRuns<ReducedTypes>;

struct Args {
  int rank, ranks;
  // Rank r's term is at terms.peer_ptr(r), except the own one, which is at `own`. The stride of
  // landed terms is a slice.
  WindowView terms;
  const std::byte* own;
  std::byte* result;
  Partition stripes;  // of the chunk, in bytes, one per block
  Reduction reduction;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const auto term = [&a](int rank) {
      return reinterpret_cast<const T*>(rank == a.rank ? a.own : a.terms.peer_ptr(rank));
    };
    const Packs<T, D::pack_bytes> result(reinterpret_cast<T*>(a.result),
                                         a.stripes.size / sizeof(T));
    BufferSum<T, D, decltype(term)> sum(dev, term, a.ranks, a.stripes.size / sizeof(T),
                                        all_aligned<D>(a) ? result.whole() : 0, a.reduction);
    // 512 threads keep 64 KB in flight, more than local memory or links need.
    sum.run_in_turn(in_packs<D::pack_bytes>(a.stripes.at(dev.block())), 1,
                    [result = a.result](int) { return reinterpret_cast<T*>(result); });
  }

 private:
  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Terms are a slice or a window apart, both multiples of a pack, so all terms but the own one
    // are aligned alike.
    return (reinterpret_cast<std::uintptr_t>(a.terms.own) |
            reinterpret_cast<std::uintptr_t>(a.own)) %
               alignof(Pack<T, D::pack_bytes>) ==
           0;
  }
};

}  // namespace plait::copy_engine
