// Two-shot all-reduce on symmetric memory: middle to large messages, no scratch, every byte crosses the link once in each direction.
//
// The message is cut into one slice a rank, and a slice into one stripe a block.
//   1. Enter: a barrier among the blocks b of all ranks: their inputs are ready.
//   2. Reduce: each rank pulls its own slice of all peers' inputs, starting at the next rank so that the links are used evenly, and adds it
//   up ...
//   3. Push:   ... and pushes the result to all ranks' outputs, in the same loop, so that both directions of the links are busy.
//   4. Leave: a second barrier: all results have arrived, and nobody reads inputs any more.
//
// Cost: two hops and 2 * bytes * (n - 1) / n out of each rank. Resources: one signal word a block and writer, one epoch a block.
// All ranks get the same bits because each element is summed by one rank. The order of the sum is fixed: it starts at the slice's own rank.
//
// Why the two barriers are enough. Elements of slice r and stripe b are read, on all ranks, and written, on all ranks, by block b of rank r
// alone, which needs the inputs (barrier 1) and delivers the outputs (barrier 2). In place, a thread has read an element of all ranks
// before it writes it. The barriers are per block: block b of a rank waits for block b of the others only. A kernel ends when its last
// block has left, so whatever the stream does next finds the output complete and its input free.
#pragma once
#include "algorithms/building_blocks/block_barrier.hpp"
#include "backends/kernel_table.hpp"

namespace plait::twoshot {

using Types = AllTypes;

struct Args {
  WindowView signals;
  WindowView send, recv;  // peer_ptr(r) is rank r's input and output; they may be equal
  std::size_t count;
  Parts slices;           // of the message, in bytes, one a rank
  Parts stripes;          // of a slice, in bytes, one a block
  std::uint32_t* epochs;  // one a block
  Reduction reduction;
  int rank, ranks;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const std::uint32_t epoch = a.epochs[dev.block()];
    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 1)) return;

    // Pulls in flight a thread, whatever the number of ranks; half as many of 8-bit elements, whose sums take four times their room.
    constexpr int in_flight = sizeof(T) == 1 ? 8 : 16;
    switch (a.ranks) {
      case 2:
        reduce_stripe<2, in_flight / 2>(dev, a);
        break;
      case 4:
        reduce_stripe<4, in_flight / 4>(dev, a);
        break;
      case 8:
        reduce_stripe<8, in_flight / 8>(dev, a);
        break;
      default:
        reduce_stripe<0, in_flight / 4>(dev, a);
    }

    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 2)) return;
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch + 2;
  }

 private:
  template <class D>
  using PackOf = Pack<T, D::pack_bytes>;

  PLAIT_DEVICE static const T* input(const Args& a, int rank) { return reinterpret_cast<const T*>(a.send.peer_ptr(rank)); }
  PLAIT_DEVICE static T* output(const Args& a, int rank) { return reinterpret_cast<T*>(a.recv.peer_ptr(rank)); }
  PLAIT_DEVICE static int peer_at(const Args& a, int step) { return rank_after(a.rank, step, a.ranks); }

  /// `Ranks` is the number of ranks, or 0 for any; `Unroll` packs of each are in flight at once.
  template <int Ranks, int Unroll, Device D>
  PLAIT_DEVICE static void reduce_stripe(D& dev, const Args& a) {
    const Range slice = a.slices.at(static_cast<unsigned>(a.rank));
    const Range stripe = a.stripes.at(dev.block());
    const auto clipped = [&](std::size_t offset) { return slice.begin + offset < slice.end ? slice.begin + offset : slice.end; };
    const Range packs = in_packs<D::pack_bytes>({clipped(stripe.begin), clipped(stripe.end)});
    const std::size_t whole =
        all_aligned<D>(a) ? (packs.end < a.count / PackOf<D>::lanes ? packs.end : a.count / PackOf<D>::lanes) : packs.begin;  // up to here
    const Reducer<T> reducer(a.reduction);

    std::size_t i = packs.begin + dev.thread();
    const std::size_t step = dev.threads();
    for (; i + (Unroll - 1) * step < whole; i += Unroll * step) reduce_whole<Ranks, Unroll>(dev, a, i, reducer);
    for (; i < whole; i += step) reduce_whole<Ranks, 1>(dev, a, i, reducer);
    for (; i < packs.end; i += step) reduce_one(dev, a, i, reducer);
  }

  /// `Unroll` complete, aligned packs a thread apart.
  template <int Ranks, int Unroll, Device D>
  PLAIT_DEVICE static void reduce_whole(D& dev, const Args& a, std::size_t i, const Reducer<T>& reducer) {
    using P = PackOf<D>;
    constexpr int known = Ranks == 0 ? 1 : Ranks;  // ranks whose packs are all loaded before the first is used
    P packs[known][Unroll];
    PLAIT_UNROLL
    for (int s = 0; s < known; ++s) load(dev, reinterpret_cast<const P*>(input(a, peer_at(a, s))) + i, packs[s]);

    using Sum = decltype(reducer.start(packs[0][0]));
    Sum sum[Unroll];
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) sum[u] = reducer.start(packs[0][u]);
    PLAIT_UNROLL
    for (int s = 1; s < known; ++s) reducer.add_each(sum, packs[s]);
    if constexpr (Ranks == 0) {
      for (int s = 1; s < a.ranks; ++s) {
        load(dev, reinterpret_cast<const P*>(input(a, peer_at(a, s))) + i, packs[0]);
        reducer.add_each(sum, packs[0]);
      }
    }

    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[0][u] = reducer.template finish<sizeof(P)>(sum[u]);
    for (int s = 0; s < a.ranks; ++s) {
      P* out = reinterpret_cast<P*>(output(a, peer_at(a, s))) + i;
      PLAIT_UNROLL
      for (int u = 0; u < Unroll; ++u) dev.store(out + std::size_t(u) * dev.threads(), packs[0][u]);
    }
  }

  template <int Unroll, Device D>
  PLAIT_DEVICE static void load(D& dev, const PackOf<D>* from, PackOf<D> (&packs)[Unroll]) {
    PLAIT_UNROLL
    for (int u = 0; u < Unroll; ++u) packs[u] = dev.load(from + std::size_t(u) * dev.threads());
  }

  /// One pack of any alignment, perhaps the last and partial one.
  template <Device D>
  PLAIT_DEVICE static void reduce_one(D& dev, const Args& a, std::size_t i, const Reducer<T>& reducer) {
    using In = Packs<const T, D::pack_bytes>;
    auto sum = reducer.start(In(input(a, a.rank), a.count).load(dev, i));
    for (int s = 1; s < a.ranks; ++s) reducer.add(sum, In(input(a, peer_at(a, s)), a.count).load(dev, i));
    const auto result = reducer.template finish<D::pack_bytes>(sum);
    for (int s = 0; s < a.ranks; ++s) Packs<T, D::pack_bytes>(output(a, peer_at(a, s)), a.count).store(dev, i, result);
  }

  template <class D>
  PLAIT_DEVICE static bool all_aligned(const Args& a) {
    // Windows are aligned to pages on all ranks and the offset is the same, so this rank's pointers speak for all.
    return (reinterpret_cast<std::uintptr_t>(input(a, a.rank)) | reinterpret_cast<std::uintptr_t>(output(a, a.rank))) %
               alignof(PackOf<D>) ==
           0;
  }
};

}  // namespace plait::twoshot
