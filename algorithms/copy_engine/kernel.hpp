// All-reduce by copy engines: the largest messages in symmetric memory. Copies move whole slices, one peer at a time, faster than a kernel
// can; kernels only add up and keep the ranks in step. This file has the kernel of the sums, algorithms/barrier that of the barriers, and
// copy_engine.cpp the order of kernels and copies.
//
// Out of place. Slice r is summed by rank r and has two pieces, a and b. On rank r the place of slice p in the OUTPUT is free until the
// end: rank p's term of slice r lands there. "Beside": on a second stream.
//   1. Barrier: all outputs are free.
//   2. Scatter slice p to rank p, for p = r + 1, r + 2, ... Of the last one, only piece a.
//   3. Scatter piece b of that last one. Beside it: barrier (pieces a have landed everywhere), sum of piece a, barrier (summed everywhere).
//   4. Gather: piece a of the result to rank r + 1. Beside it: barrier (pieces b have landed), sum of piece b, barrier (summed everywhere).
//   5. Gather piece b to rank r + 1, then the whole slice to r + 2, r + 3, ...
//   6. Barrier: all results have arrived.
// What remains of the message after n equal slices, less than 64 bytes a rank, is pulled and summed by every rank for itself, in 4.
//
// In place there is nowhere to land. Slice r of every buffer is read and written by rank r alone.
//   1. Barrier: all inputs are ready.
//   2. Sum: pull the first piece of the own slice of all ranks, write the sum into the own buffer.
//   3. For every further piece: sum it; beside it, gather: copy the piece before to rank r + 1, r + 2, ...
//   4. Gather the last piece.
//   5. Barrier: all results have arrived.
//
// Cost: two hops, 2 n copies a rank, 2 * bytes * (n - 1) / n out of each rank; sums and inner barriers are hidden behind copies. Resources:
// a signal word for each writer, one epoch. All ranks get the same bits: one rank sums a slice, and all sum the tail in the same order. It
// is that of the ranks, but begins at the slice's own rank where terms are pulled: if all began at rank 0, all would wait for its link.
//
// Why this is right.
// * Visible: a kernel that follows a copy in a stream, or that waits for it by an event, does nothing before the copy is complete (those
//   that start early wait first). Its signal is a release at system scope, after the copy; the peer's wait is an acquire; what follows in
//   the peer's stream comes after its wait. So "the barrier after X" means: X has happened on all ranks, and is visible. One block is
//   enough, because nothing is tied to blocks.
// * Landing (2, 3): rank p's term of slice r goes to rank r's output at slice p. Barrier 1 came after whatever used that output before. As
//   slices are equal, each (p, r) has a place of its own, and none is at slice r, where rank r writes its sum.
// * Sum of piece x reads own input and what landed at piece x: the barrier before it came after the copies of all ranks. It writes piece x
//   of slice r of its own output, where nothing lands.
// * Gather of piece x by rank r overwrites, on rank p, slice r's piece x: there lay rank r's own term for rank p. The barrier after the
//   sums of piece x says that rank p has read it. Nobody else writes there. Piece a goes while pieces b are still summed: other bytes.
// * Inputs are read by copies and sums of their own rank, and by the peers' sums of the tail, which come before barrier 6 on all ranks. So
//   the input is free when the call ends, and barrier 6 comes after all copies into this output.
// * In place: rank r alone reads slice r of all buffers (sum) and writes it (sum, gather), each piece in this order. Barrier 1
//   comes after the inputs, barrier 5 after all pulls and copies. Nothing else is shared.
// * Deadlock: a rank's barriers follow one another in its streams, in the same order on all ranks, and nothing but its own earlier work
//   comes before one. So the earliest barrier that is not through on some rank will be reached by all, even if a target runs the two
//   streams as one, in the order of the calls.
// * Epochs: barriers of a call, and calls, come one after another in stream order, so one word counts them.
// * Missing ranks: a barrier that gives up leaves its epoch, and all later kernels signal nothing and wait for nothing. Copies can't look:
//   those that are in the streams still run, into the outputs of this call on all ranks, also on one that never made the call. They touch
//   nothing else; after a timeout the results of the calls that were under way are undefined everywhere.
#pragma once
#include "backends/device.hpp"
#include "backends/kernel_table.hpp"

namespace plait::copy_engine {

using Types = AllTypes;

struct Args {
  int rank, ranks;
  // Rank r's term is at terms.peer_ptr(r), for landed ones with a slice for a stride, but the own one is at `own`.
  WindowView terms;
  const std::byte* own;
  std::byte* result;
  int first;      // the rank whose term comes first; the others follow in their order
  Parts stripes;  // of the piece, in bytes, one a block
  Reduction reduction;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    // Loads in flight a thread, of one rank after another: 512 threads keep 64 KB in flight, more than local memory or links ask for.
    // Half as many of 8-bit elements, whose sums take four times their room.
    constexpr int unroll = sizeof(T) == 1 ? 4 : 8;
    const Range packs = in_packs<D::pack_bytes>(a.stripes.at(dev.block()));
    const std::size_t complete = all_aligned<D>(a) ? a.stripes.size / D::pack_bytes : 0;
    const std::size_t whole = packs.end < complete ? packs.end : complete;
    const Reducer<T> reducer(a.reduction);

    std::size_t i = packs.begin + dev.thread();
    const std::size_t step = dev.threads();
    for (; i + (unroll - 1) * step < whole; i += unroll * step) sum_whole<unroll>(dev, a, i, reducer);
    for (; i < packs.end; i += step) sum_one(dev, a, i, reducer);
  }

 private:
  template <class D>
  using PackOf = Pack<T, D::pack_bytes>;

  template <class P>
  PLAIT_DEVICE static const P* term(const Args& a, int rank) {
    return reinterpret_cast<const P*>(rank == a.rank ? a.own : a.terms.peer_ptr(rank));
  }

  /// `Unroll` complete, aligned packs a thread apart.
  template <int Unroll, Device D>
  PLAIT_DEVICE static void sum_whole(D& dev, const Args& a, std::size_t i, const Reducer<T>& reducer) {
    using P = PackOf<D>;
    P packs[Unroll];
    load(dev, term<P>(a, a.first) + i, packs);
    using Sum = decltype(reducer.start(packs[0]));
    Sum sum[Unroll];
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) sum[u] = reducer.start(packs[u]);
    for (int s = 1; s < a.ranks; ++s) {
      load(dev, term<P>(a, rank_after(a.first, s, a.ranks)) + i, packs);
      reducer.add_each(sum, packs);
    }
    P* out = reinterpret_cast<P*>(a.result) + i;
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) dev.store(out + std::size_t(u) * dev.threads(), reducer.template finish<sizeof(P)>(sum[u]));
  }

  template <int Unroll, Device D>
  PLAIT_DEVICE static void load(D& dev, const PackOf<D>* from, PackOf<D> (&packs)[Unroll]) {
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[u] = dev.load(from + std::size_t(u) * dev.threads());
  }

  /// One pack of any alignment, perhaps the last and partial one.
  template <Device D>
  PLAIT_DEVICE static void sum_one(D& dev, const Args& a, std::size_t i, const Reducer<T>& reducer) {
    using In = Packs<const T, D::pack_bytes>;
    const std::size_t count = a.stripes.size / sizeof(T);
    auto sum = reducer.start(In(term<T>(a, a.first), count).load(dev, i));
    for (int s = 1; s < a.ranks; ++s) reducer.add(sum, In(term<T>(a, rank_after(a.first, s, a.ranks)), count).load(dev, i));
    Packs<T, D::pack_bytes>(reinterpret_cast<T*>(a.result), count).store(dev, i, reducer.template finish<D::pack_bytes>(sum));
  }

  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Terms are slices or windows apart, both multiples of a pack: one speaks for all but the own.
    return (reinterpret_cast<std::uintptr_t>(a.terms.own) | reinterpret_cast<std::uintptr_t>(a.own) |
            reinterpret_cast<std::uintptr_t>(a.result)) %
               alignof(PackOf<D>) ==
           0;
  }
};

}  // namespace plait::copy_engine
