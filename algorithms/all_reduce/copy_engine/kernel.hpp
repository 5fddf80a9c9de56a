// All-reduce by copy engines: the largest messages in symmetric memory. Copies move whole slices,
// one peer at a time, faster than a kernel can; kernels only add up and keep the ranks in step.
// This file has the kernel of the sums, algorithms/barrier that of the barriers, and
// copy_engine.cpp the order of kernels and copies.
//
// Out of place. Slice r is summed by rank r and has two chunks, a and b. On rank r the place of
// slice p in the OUTPUT is free until the end: rank p's term of slice r lands there. "Beside": on a
// second stream.
//   1. Barrier: all outputs are free.
//   2. Scatter slice p to rank p, for p = r + 1, r + 2, ... Of the last one, only chunk a.
//   3. Scatter chunk b of that last one. Beside it: barrier (chunks a have landed everywhere), sum
//   of chunk a, barrier (summed everywhere).
//   4. Gather: chunk a of the result to rank r + 1. Beside it: barrier (chunks b have landed), sum
//   of chunk b, barrier (summed everywhere).
//   5. Gather chunk b to rank r + 1, then the whole slice to r + 2, r + 3, ...
//   6. Barrier: all results have arrived.
// What remains of the message after n equal slices, less than 64 bytes a rank, is pulled and summed
// by every rank for itself, in 4.
//
// In place there is nowhere to land. Slice r of every buffer is read and written by rank r alone.
//   1. Barrier: all inputs are ready.
//   2. Sum: pull the first chunk of the own slice of all ranks, write the sum into the own buffer.
//   3. For every further chunk: sum it; beside it, gather: copy the chunk before to rank r + 1, r +
//   2, ...
//   4. Gather the last chunk.
//   5. Barrier: all results have arrived.
//
// Cost: two hops, 2 n copies a rank, 2 * bytes * (n - 1) / n out of each rank; sums and inner
// barriers are hidden behind copies. Resources: a signal word for each writer, one epoch. All ranks
// get the same bits: one rank sums a slice, and all sum the tail in the same order. It is that of
// the ranks, but begins at the slice's own rank where terms are pulled: if all began at rank 0, all
// would wait for its link.
//
// Why this is right.
// * Visible: a kernel that follows a copy in a stream, or that waits for it by an event, does
// nothing before the copy is complete (those
//   that start early wait first). Its signal is a release at system scope, after the copy; the
//   peer's wait is an acquire; what follows in the peer's stream comes after its wait. So "the
//   barrier after X" means: X has happened on all ranks, and is visible. One block is enough,
//   because nothing is tied to blocks.
// * Landing (2, 3): rank p's term of slice r goes to rank r's output at slice p. Barrier 1 came
// after whatever used that output before. As
//   slices are equal, each (p, r) has a place of its own, and none is at slice r, where rank r
//   writes its sum.
// * Sum of chunk x reads own input and what landed at chunk x: the barrier before it came after the
// copies of all ranks. It writes chunk x
//   of slice r of its own output, where nothing lands.
// * Gather of chunk x by rank r overwrites, on rank p, slice r's chunk x: there lay rank r's own
// term for rank p. The barrier after the
//   sums of chunk x says that rank p has read it. Nobody else writes there. Chunk a goes while
//   chunks b are still summed: other bytes.
// * Inputs are read by copies and sums of their own rank, and by the peers' sums of the tail, which
// come before barrier 6 on all ranks. So
//   the input is free when the call ends, and barrier 6 comes after all copies into this output.
// * In place: rank r alone reads slice r of all buffers (sum) and writes it (sum, gather), each
// chunk in this order. Barrier 1
//   comes after the inputs, barrier 5 after all pulls and copies. Nothing else is shared.
// * Deadlock: a rank's barriers follow one another in its streams, in the same order on all ranks,
// and nothing but its own earlier work
//   comes before one. So the earliest barrier that is not through on some rank will be reached by
//   all, even if a target runs the two streams as one, in the order of the calls.
// * Epochs: barriers of a call, and calls, come one after another in stream order, so one word
// counts them.
// * Missing ranks: a barrier that gives up leaves its epoch, and all later kernels signal nothing
// and wait for nothing. Copies can't look:
//   those that are in the streams still run, into the outputs of this call on all ranks, also on
//   one that never made the call. They touch nothing else; after a timeout the results of the calls
//   that were under way are undefined everywhere.
#pragma once
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::copy_engine {

using Types = ReducedTypes;

struct Args {
  int rank, ranks;
  // Rank r's term is at terms.peer_ptr(r), for landed ones with a slice for a stride, but the own
  // one is at `own`.
  WindowView terms;
  const std::byte* own;
  std::byte* result;
  int first;      // the rank whose term comes first; the others follow in their order
  Parts stripes;  // of the chunk, in bytes, one a block
  Reduction reduction;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const auto term = [&a](int step) {
      const int rank = rank_after(a.first, step, a.ranks);
      return reinterpret_cast<const T*>(rank == a.rank ? a.own : a.terms.peer_ptr(rank));
    };
    const Packs<T, D::pack_bytes> result(reinterpret_cast<T*>(a.result),
                                         a.stripes.size / sizeof(T));
    BufferSum<T, D, decltype(term)> sum(dev, term, a.ranks, a.stripes.size / sizeof(T),
                                        all_aligned<D>(a) ? result.whole() : 0, a.reduction);
    // 512 threads keep 64 KB in flight, more than local memory or links ask for.
    sum.run_in_turn(in_packs<D::pack_bytes>(a.stripes.at(dev.block())),
                    [&dev, result]<bool Whole, int Count>(
                        std::size_t i, const Pack<T, D::pack_bytes>(&sums)[Count]) {
                      store_packs<Whole>(dev, result, i, sums);
                    });
  }

 private:
  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Terms are slices or windows apart, both multiples of a pack: one speaks for all but the own.
    return (reinterpret_cast<std::uintptr_t>(a.terms.own) |
            reinterpret_cast<std::uintptr_t>(a.own)) %
               alignof(Pack<T, D::pack_bytes>) ==
           0;
  }
};

}  // namespace plait::copy_engine
