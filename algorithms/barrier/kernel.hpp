// Barrier between all ranks, in their streams: one block, with one thread per peer.
//
//   1. Signal: send every peer the number of this barrier.
//   2. Wait until every peer has sent the same number.
//
// Cost: one hop. Resources: one signal word per writer, and one counter. Proof:
// algorithms/blocks/flags/block_barrier.hpp.
#pragma once
#include "algorithms/blocks/flags/block_barrier.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::barrier {

using Types = TypeList<std::uint8_t>;  // it moves no data

struct Args {
  WindowView signals;
  std::uint32_t* epoch;  // in device memory, so that a captured launch advances it at every replay
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
