// All-reduce by slices, one pack at a time: twoshot without its speed.
//
// The message is cut into one slice per rank, and a slice into one stripe per block.
//   1. Enter: a barrier among the blocks b of all ranks. Afterwards their inputs are ready.
//   2. Reduce: pull each pack of the own slice from all ranks, add in rank order, push the sum to
//      all ranks.
//   3. Leave: a second barrier. Afterwards all results have arrived, and no rank reads inputs.
//
// Cost: two hops and 2 * bytes * (n - 1) / n out of each rank. Resources: one signal word per
// (block, writer), one epoch per block.
//
// Why the two barriers are enough: one thread of block b of rank r reads and writes a pack of slice
// r and stripe b on all ranks. It reads the pack everywhere before it writes it anywhere, so the
// call may be in place. Block b needs the inputs (barrier 1) and delivers the outputs (barrier 2).
// Slices and stripes end at multiples of a pack, so no two threads share a pack. Block b waits only
// for the blocks b of other ranks, so blocks may run one after another.
#pragma once
#include "algorithms/blocks/flags/block_barrier.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::slices {

using Types = ReducedTypes;  // all data types, because only `Reducer` looks at values

/// Trivially copyable, at most max_kernel_args bytes.
struct Args {
  WindowView signals;
  WindowView send, recv;  // peer_ptr(r): rank r's input and output
  std::size_t count;
  Parts parts;            // slices of the message, in bytes, one per rank
  Parts stripes;          // stripes of a slice, in bytes, one per block
  std::uint32_t* epochs;  // one per block
  Reduction reduction;
  int rank, ranks;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const std::uint32_t epoch = a.epochs[dev.block()];
    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 1)) return;

    const Range slice = a.parts.at(static_cast<unsigned>(a.rank)),
                stripe = a.stripes.at(dev.block());
    const Range bytes{slice.begin + stripe.begin,
                      slice.begin + stripe.end < slice.end ? slice.begin + stripe.end : slice.end};
    if (bytes.begin < bytes.end) reduce(dev, a, in_packs<D::pack_bytes>(bytes));

    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch + 2)) return;
    if (dev.thread() == 0) a.epochs[dev.block()] = epoch + 2;
  }

 private:
  template <Device D>
  PLAIT_DEVICE static void reduce(D& dev, const Args& a, Range packs) {
    using In = Packs<const T, D::pack_bytes>;
    using Out = Packs<T, D::pack_bytes>;
    const Reducer<T> reducer(a.reduction);
    for (std::size_t i = packs.begin + dev.thread(); i < packs.end; i += dev.threads()) {
      auto sum =
          reducer.start(In(reinterpret_cast<const T*>(a.send.peer_ptr(0)), a.count).load(dev, i));
      for (int r = 1; r < a.ranks; ++r)
        reducer.add(sum, In(reinterpret_cast<const T*>(a.send.peer_ptr(r)), a.count).load(dev, i));
      const auto result = reducer.template finish<D::pack_bytes>(sum);
      for (int r = 0; r < a.ranks; ++r)
        Out(reinterpret_cast<T*>(a.recv.peer_ptr(r)), a.count).store(dev, i, result);
    }
  }
};

}  // namespace plait::slices
