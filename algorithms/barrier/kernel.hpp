// Barrier between all ranks, in their streams: one block, one thread a peer.
//
//   1. Signal: tell every peer the number of this barrier.
//   2. Wait: until every peer has told the same.
//
// Cost: one hop. Resources: one word a writer and a counter. Proof:
// algorithms/blocks/flags/block_barrier.hpp.
#pragma once
#include "algorithms/blocks/flags/block_barrier.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::barrier {

using Types = TypeList<std::uint8_t>;  // it moves no data

struct Args {
  WindowView signals;
  std::uint32_t* epoch;  // one word: a captured launch advances it at every replay
  int rank, ranks;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    const std::uint32_t epoch = *a.epoch + 1;
    if (!block_barrier(dev, a.signals, a.rank, a.ranks, epoch)) return;
    if (dev.thread() == 0) *a.epoch = epoch;
  }
};

}  // namespace plait::barrier
