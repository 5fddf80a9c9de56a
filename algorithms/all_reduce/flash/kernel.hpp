// Flash all-reduce on symmetric memory: pulls through a pipeline of asynchronous copies, so the
// next packs are on their way while the last ones are added. No scratch memory.
//
// Two ranks, out of place: each pulls the other's whole input and makes the whole result for
// itself. More ranks, or in place: the message is cut into one slice per rank. The bytes that a
// rank reduces are cut into one stripe per block, and a thread's part of a stripe into items: up to
// four packs of one rank.
//   1. Enter: a barrier among blocks b of all ranks. After it, all inputs are ready.
//   2. Reduce: the items of all ranks go through the pipeline (pipeline.hpp) and are added, in the
//      order of the ranks. The own packs, too: to hold them in registers until it is their turn
//      would spill others.
//   3. Store: after the last rank's item, the result goes to the own output (two ranks, out of
//      place), or to all ranks' outputs.
//   4. Leave: a second barrier. After it, no rank reads inputs any more and all results have
//      arrived.
// Packs that are not aligned or not complete are reduced one by one, without the pipeline, in the
// same order. All ranks begin with rank 0's packs, but a thread has those of three ranks on their
// way at once, so no link is idle for long.
//
// Cost: for two ranks out of place, one hop and `bytes` out of each rank; else two hops and
// 2 (n - 1) / n * bytes.
// Resources: one signal word per (block, writer), one epoch per block; 16 packs of shared memory
// per thread, where copies go there.
//
// All ranks get the same bits: they add in the order of the ranks.
//
// Why the two barriers are enough. Inputs are complete after barrier 1, and a copy is ordered after
// it as a load is. A block enters barrier 2 with nothing on its way (pipeline.hpp), so after it
// inputs are free and outputs that peers write are complete. Between the two barriers:
//   - Sliced: on all ranks, only block b of rank r reads and writes the elements of slice r and
//     stripe b, and one thread handles each pack of them. In place, that thread has all ranks'
//     terms of a pack before it stores the result anywhere. Copies that it has started by then and
//     not used yet are of later packs, which it stores later.
//   - Whole (two ranks): both ranks read the inputs and no rank writes them; only the own rank
//     writes an output. In place this would be wrong: a rank would store over bytes that its peer
//     still reads. Both ranks agree on whether a call is in place, because buffers lie at the same
//     offset of the same window on all ranks (plait/call.hpp; PLAIT_CHECK compares both buffers),
//     and other overlaps are refused.
// Inside the pipeline, a thread reads only what it copied. A barrier joins block b of a rank only
// with blocks b of the others. A kernel ends when its last block has left.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/flash/pipeline.hpp"
#include "algorithms/all_reduce/flash/plan.hpp"
#include "algorithms/blocks/flags/block_peers.hpp"
#include "backends/device/kernel_table.hpp"
#include "backends/device/untyped.hpp"

namespace plait::flash {

using Types = InRuns<ReducedTypes>;

struct Args {
  PeerSignals peers;
  // peer_ptr(r) is rank r's input and output. They may be equal if `whole` is false.
  WindowView send, recv;
  std::size_t count;
  EvenPartition stripes;  // of the bytes that this rank reduces, one per block
  Reduction reduction;
  bool whole;  // two ranks, each of which reduces the whole message for itself

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

/// The buffers of a call.
template <class T>
struct Ranks {
  const Args& a;

  PLAIT_DEVICE const T* input(int rank) const {
    return reinterpret_cast<const T*>(a.send.peer_ptr(rank));
  }
  /// Of the rank `step` places after this one.
  PLAIT_DEVICE T* output(int step) const {
    return reinterpret_cast<T*>(a.recv.peer_ptr(rank_after(a.peers.rank, step, a.peers.ranks)));
  }
};

/// One thread's part of a stripe of complete, aligned packs: the `Work` of the pipeline. An item is
/// every `threads`-th pack from the thread's first. `Whole`: see Args.
template <class T, Device D, int Depth, bool Whole>
class Stripe {
 public:
  static constexpr int width = stage_packs(sizeof(T));

  PLAIT_DEVICE Stripe(D& dev, const Args& a, Range packs, const Reducer<T>& reducer)
      : dev_(dev),
        ranks_{a},
        end_(packs.end),
        reducer_(reducer),
        stride_(dev.threads()),
        started_{packs.begin + dev.thread(), 0},
        used_(started_) {}

  PLAIT_DEVICE bool more() const { return used_.pack < end_; }

  template <int Slot>
  PLAIT_DEVICE void start() {
    if (started_.pack < end_) {
      const P* from = reinterpret_cast<const P*>(ranks_.input(started_.rank)) + started_.pack;
      PLAIT_UNROLL
      for (int u = 0; u < width; ++u)
        if (offset(u) < end_ - started_.pack)
          staging_.copy_async(Slot * width + u, from + offset(u));
      advance(started_);
    }
    staging_.commit();  // also an empty group, so that each call has one
  }

  /// Adds the packs in the slot. Packs beyond the end are old ones, whose sums are not stored.
  template <int Slot>
  PLAIT_DEVICE void use() {
    P packs[width];
    staging_.template wait_pending<Depth - 1>();
    PLAIT_UNROLL
    for (int u = 0; u < width; ++u) packs[u] = staging_.load(Slot * width + u);
    if (used_.rank == 0) start_sums(packs);
    else reducer_.add_each(sums_, packs);
    const std::size_t pack = used_.pack;
    advance(used_);
    if (used_.rank == 0) store_sums(pack);
  }

 private:
  using P = Pack<T, D::pack_bytes>;
  using Sum = typename Reducer<T>::template Accumulator<P::lanes>;

  /// A place in the sequence of items.
  struct Item {
    std::size_t pack;  // the thread's first of the item
    int rank;
  };

  PLAIT_DEVICE int ranks() const { return Whole ? 2 : ranks_.a.peers.ranks; }
  /// The offset of the thread's pack u from its first.
  PLAIT_DEVICE std::size_t offset(int u) const { return static_cast<unsigned>(u) * stride_; }
  PLAIT_DEVICE void advance(Item& item) const {
    if (++item.rank < ranks()) return;
    item.rank = 0;
    item.pack += offset(width);
  }

  PLAIT_DEVICE void start_sums(const P (&packs)[width]) {
    PLAIT_UNROLL
    for (int u = 0; u < width; ++u) sums_[u] = reducer_.start(packs[u]);
  }
  PLAIT_DEVICE void store_sums(std::size_t pack) {
    P results[width];
    PLAIT_UNROLL
    for (int u = 0; u < width; ++u) results[u] = reducer_.template finish<sizeof(P)>(sums_[u]);
    for (int step = 0; step < (Whole ? 1 : ranks()); ++step) {
      P* to = reinterpret_cast<P*>(ranks_.output(step)) + pack;
      PLAIT_UNROLL
      for (int u = 0; u < width; ++u)
        if (offset(u) < end_ - pack) dev_.store(to + offset(u), results[u]);
    }
  }

  D& dev_;
  Ranks<T> ranks_;
  std::size_t end_;
  const Reducer<T>& reducer_;
  unsigned stride_;  // the block's threads
  Item started_, used_;
  Sum sums_[width];
  Staging<D, P, Depth * width> staging_;
};

/// The kernel, for one depth of the pipeline.
template <class T, int Depth>
struct AllReduce {
  static constexpr int staged_packs = Depth * stage_packs(sizeof(T));

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    between_barriers<reduce<D>>(dev, a);
  }

  /// The work of a block between the barriers.
  template <Device D>
  PLAIT_DEVICE static void reduce(D& dev, const Args& a) {
    if constexpr (is_untyped<T>) {
      reduce_run(dev, a);
    } else if (a.whole) {
      reduce_stripe<true>(dev, a);
    } else {
      reduce_stripe<false>(dev, a);
    }
  }

 private:
  template <bool Whole, Device D>
  PLAIT_DEVICE static void reduce_stripe(D& dev, const Args& a) {
    const Range packs = in_packs<D::pack_bytes>(a.stripes.at(dev.block()));
    const Reducer<T> reducer(a.reduction);
    std::size_t whole = packs.begin;  // packs before this one go through the pipeline
    if (a.peers.ranks > 1 && all_aligned<D>(a)) {
      const std::size_t complete = a.count / Pack<T, D::pack_bytes>::lanes;
      const std::size_t end = packs.end < complete ? packs.end : complete;
      if (end > whole) whole = end;
    }
    using Work = Stripe<T, D, Depth, Whole>;
    Work work(dev, a, {packs.begin, whole}, reducer);
    Pipeline<Depth, Work>(work).run();
    for (std::size_t i = whole + dev.thread(); i < packs.end; i += dev.threads())
      reduce_one<Whole>(dev, a, i, reducer);
  }

  /// On a CPU, whose loads are ahead of its sums without a pipeline.
  template <Device D>
  PLAIT_DEVICE static void reduce_run(D& dev, const Args& a) {
    const Ranks<T> ranks{a};
    Reducer<T>(a.reduction)
        .sum(
            dev, in_packs<D::pack_bytes>(a.stripes.at(dev.block())), a.count, a.peers.ranks,
            a.peers.ranks, [&](int rank) { return ranks.input(rank); }, a.whole ? 1 : a.peers.ranks,
            [&](int step) { return ranks.output(step); }, true);
  }

  /// Reduces one pack of any alignment, perhaps the last and partial one.
  template <bool Whole, Device D>
  PLAIT_DEVICE static void reduce_one(D& dev, const Args& a, std::size_t i,
                                      const Reducer<T>& reducer) {
    using P = Pack<T, D::pack_bytes>;
    const Ranks<T> ranks{a};
    const P result = sum_in_turn<P>(reducer, a.peers.ranks, [&](int rank) PLAIT_INLINED {
      return Packs<const T, D::pack_bytes>(ranks.input(rank), a.count).load(dev, i);
    });
    for (int step = 0; step < (Whole ? 1 : a.peers.ranks); ++step)
      Packs<T, D::pack_bytes>(ranks.output(step), a.count).store(dev, i, result);
  }

  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Windows begin at pages on all ranks and offsets are equal, so this rank's pointers are
    // aligned as all others are.
    const Ranks<T> ranks{a};
    return (reinterpret_cast<std::uintptr_t>(ranks.input(a.peers.rank)) |
            reinterpret_cast<std::uintptr_t>(ranks.output(0))) %
               alignof(Pack<T, D::pack_bytes>) ==
           0;
  }
};

template <class T>
struct Kernel : AllReduce<T, depth> {};

}  // namespace plait::flash
