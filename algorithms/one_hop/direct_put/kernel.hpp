// Collectives of one hop that add nothing up, by stores into the peers' outputs, on symmetric
// memory: middle to large messages.
//
// The blocks of the call are cut into one stripe per thread block.
//   1. Enter: a barrier among thread blocks b of all ranks. After it, outputs may be written and
//      inputs read.
//   2. Put: a rank stores its stripes of the blocks for its peers into their outputs, the next rank
//      first, so that no two ranks write to the same peer at a time. Then it copies its block for
//      itself. In a gather only inputs lie in symmetric memory, so there the root loads them.
//   3. Leave: a second barrier. After it, all stores have arrived and no rank reads inputs any
//      more.
//
// Why the two barriers are enough. Only thread blocks b, of all ranks, read and write the bytes of
// stripe b, and only one rank writes each byte of an output. In place, no rank stores where a rank
// loads: a block that a rank sends lies in its input, or in an output at a place where no other
// rank's block goes. all_to_all, where this is not so, is refused. A kernel ends when its last
// block has left, so the next work in the stream finds the output complete and the input free.
//
// Cost: two barriers, and (n - 1) blocks out of, or into, the busiest rank.
// Resources: one signal word per (thread block, writer), one epoch per thread block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/block_peers.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/blocks/loops/pack_loop.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"

namespace plait::direct_put {

using Types = MoveTypes;

struct Args {
  PeerSignals peers;
  WindowView window;  // of the outputs; in a gather, of the inputs
  DirectPattern pattern;
  bool loads;  // from the window; else the kernel stores there
  const void* send;
  void* recv;
  std::size_t count;  // elements of a block
  Partition stripes;  // of a block, in bytes, one per thread block
};

template <class T, class D>
class Put {
 public:
  PLAIT_DEVICE static void run(D& dev, const Args& a) { between_barriers<put>(dev, a); }

 private:
  PLAIT_DEVICE static void put(D& dev, const Args& a) {
    const int rank = a.peers.rank, ranks = a.peers.ranks;
    const Range packs = in_packs<D::pack_bytes>(a.stripes.at(dev.block()));
    for (int step = 1; step < ranks; ++step) {
      const int peer = rank_after(rank, step, ranks);
      auto* const there = reinterpret_cast<T*>(a.window.peer_ptr(peer));
      if (a.loads) {
        if (a.pattern.sends(peer, rank)) copy(dev, a, packs, there, incoming(a, peer));
      } else if (a.pattern.sends(rank, peer)) {
        copy(dev, a, packs, outgoing(a, peer), there + a.pattern.recv_begin(rank, a.count));
      }
    }
    if (a.pattern.sends(rank, rank) && outgoing(a, rank) != incoming(a, rank))
      copy(dev, a, packs, outgoing(a, rank), incoming(a, rank));
  }
  PLAIT_DEVICE static const T* outgoing(const Args& a, int target) {
    return static_cast<const T*>(a.send) + a.pattern.send_begin(target, a.count);
  }
  PLAIT_DEVICE static T* incoming(const Args& a, int source) {
    return static_cast<T*>(a.recv) + a.pattern.recv_begin(source, a.count);
  }

  PLAIT_DEVICE static void copy(D& dev, const Args& a, const Range& range, const T* input,
                                T* output) {
    constexpr int in_flight = D::pack_bytes >= 64 ? 1 : 8;
    copy_packs<in_flight>(dev, Packs<const T, D::pack_bytes>(input, a.count),
                          Packs<T, D::pack_bytes>(output, a.count), range);
  }
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Put<T, D>::run(dev, a);
  }
};

}  // namespace plait::direct_put
