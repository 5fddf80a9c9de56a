// Barrier between all ranks, in their streams: one block, with one thread per peer.
//
//   1. Signal: send every peer the number of this barrier.
//   2. Wait until every peer has sent the same number.
//
// Cost: one hop. Resources: one signal word per writer, and one counter. Proof:
// algorithms/blocks/flags/block_peers.hpp.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/block_peers.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::barrier {

using Types = TypeList<std::uint8_t>;  // it moves no data

struct Args {
  PeerSignals peers;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    BlockPeers<D> peers(dev, a.peers);
    if (!peers.barrier()) return;
    peers.finish();
  }
};

}  // namespace plait::barrier
