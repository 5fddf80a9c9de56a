// All-reduce by slices. Each rank adds up one slice of the message, and each block a stripe of it.
//   1. Signal that this rank's input is ready, and wait until all inputs are.
//   2. Load each pack of the stripe from all ranks, add in rank order, store the sum at all ranks.
//   3. Signal that this rank's results are stored, and wait until all results are.
//
// Why this is right: between the waits, only block b of rank r uses stripe b of slice r, on all
// ranks. One thread reads a pack everywhere before it writes it anywhere, so the call may be in
// place. No two stripes share a pack. Block b waits only for the blocks b of other ranks.
#pragma once
#include "algorithms/blocks/flags/sliced_all_reduce.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::slices {

using Types = ReducedTypes;
using Args = SlicedAllReduce;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    BlockPeers<D> peers(dev, a.peers);
    peers.signal();
    if (!peers.wait()) return;

    const Reducer<T> reducer(a.reduction);
    const Range packs = a.packs(dev);
    for (std::size_t i = packs.begin + dev.thread(); i < packs.end; i += dev.threads()) {
      auto sum = reducer.start(a.input<T, D>(0).load(dev, i));
      for (int r = 1; r < a.peers.ranks; ++r) reducer.add(sum, a.input<T, D>(r).load(dev, i));
      const auto result = reducer.template finish<D::pack_bytes>(sum);
      for (int r = 0; r < a.peers.ranks; ++r) a.output<T, D>(r).store(dev, i, result);
    }

    peers.signal();
    if (!peers.wait()) return;
    peers.finish();
  }
};

}  // namespace plait::slices
