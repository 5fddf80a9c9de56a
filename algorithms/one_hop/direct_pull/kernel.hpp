// Reduce-scatter and reduce by loads from the peers' inputs, on symmetric memory: middle to large
// messages.
//
// The block of the call that a rank gets is cut into one stripe per thread block.
//   1. Enter: a barrier among thread blocks b of all ranks. After it, inputs are ready.
//   2. Pull: a rank that gets a result loads its block from all inputs and adds them in the order
//      of the ranks into its output.
//   3. Leave: a second barrier. After it, no rank reads inputs any more.
//
// Why the two barriers are enough. Only the own rank writes an output, and only its thread block b
// writes stripe b. In place, that is the block of the input that no peer reads, and a thread has
// read an element before it writes it. Inputs of peers are read between the barriers: after earlier
// work in the peer's stream and before later work, because a kernel ends when its last block has
// left.
//
// Cost: two barriers, and (n - 1) blocks into the busiest rank.
// Resources: one signal word per (thread block, writer), one epoch per thread block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/block_peers.hpp"
#include "algorithms/blocks/loops/buffer_sum.hpp"
#include "algorithms/blocks/patterns/direct_pattern.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::direct_pull {

using Types = InRuns<ReducedTypes>;

struct Args {
  PeerSignals peers;
  WindowView send;  // peer_ptr(r) is rank r's input
  DirectPattern pattern;
  void* recv;         // where there is a result
  std::size_t count;  // elements of a block
  Partition stripes;  // of a block, in bytes, one per thread block
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    between_barriers<pull<D>>(dev, a);
  }

 private:
  template <Device D>
  PLAIT_DEVICE static void pull(D& dev, const Args& a) {
    if (!a.pattern.sends(a.peers.rank, a.peers.rank)) return;
    const std::size_t begin = a.pattern.send_begin(a.peers.rank, a.count);
    const auto term = [&a, begin](int rank) {
      return reinterpret_cast<const T*>(a.send.peer_ptr(rank)) + begin;
    };
    const Packs<T, D::pack_bytes> out(static_cast<T*>(a.recv), a.count);
    // Inputs lie at the same offset of windows that begin at pages, so all are aligned as the own
    // one.
    const std::size_t whole = Packs<const T, D::pack_bytes>(term(0), a.count).whole();
    BufferSum<T, D, decltype(term)> sum(dev, term, a.peers.ranks, a.count,
                                        whole < out.whole() ? whole : out.whole(), a.reduction);
    sum.run(in_packs<D::pack_bytes>(a.stripes.at(dev.block())), 1,
            [recv = a.recv](int) { return static_cast<T*>(recv); });
  }
};

}  // namespace plait::direct_pull
