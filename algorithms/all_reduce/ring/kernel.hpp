// Ring all-reduce: large messages on any memory; each rank talks to its two neighbours only.
//
// Each block runs a ring of its own, even blocks forwards, odd blocks backwards, so every rank uses
// both directions of every link. The ring has the order of `Topology::ring`, and chunks are
// numbered by position in it. The message is cut into one stripe per block, a stripe into rounds,
// and a round into n chunks that fit a slot each. In each round:
//   1. Reduce-scatter, n - 1 steps: chunks travel round the ring and collect every rank's term.
//   2. All-gather, n - 1 steps: the finished chunks travel round once more.
// schedule.hpp has the order of the steps; primitives.hpp defines a step and proves that none
// deadlocks.
// Partial results travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`,
// `finish`).
//
// Cost: 2 (n - 1) hops for the first round, pipelined after it; 2 (n - 1) / n * bytes out of each
// rank.
// Resources: way 0 of the channels (algorithms/blocks/channels/channel.hpp) to and from two
// neighbours.
//
// All ranks get the same bits: a chunk is summed along one path, then only copied.
//
// In place is safe: a rank stores a chunk only after it has sent its own input for it, because the
// last reduce step and the all-gather come later, and no rank reads another's user buffers. A block
// waits only for the blocks with its number at the two neighbours.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/ring/primitives.hpp"

namespace plait::ring {

using Types = InRuns<ReducedTypes>;

struct Args {
  Channels channels;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Partition stripes;  // of the message, in bytes, one per block
  Reduction reduction;
  RingPlace place;  // in the rings of even blocks

  void count_bytes(std::size_t element) { count *= element; }  // for runs
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    ChunkMover<T, D> mover(dev, a.send, a.recv, a.count, a.reduction);
    const RingPlace place = dev.block() % 2 == 1 ? a.place.reversed() : a.place;
    Primitives<T, D> ring(dev, mover, place, a.channels);

    const Range stripe = a.stripes.at(dev.block());
    const std::uint32_t slot_bytes = a.channels.slot_bytes;
    const std::size_t round = std::size_t{slot_bytes} * static_cast<unsigned>(place.ranks);
    for (std::size_t begin = stripe.begin; begin < stripe.end; begin += round) {
      const std::size_t size = stripe.end - begin < round ? stripe.end - begin : round;
      ring.set_chunks(RoundChunks::of(begin, size, slot_bytes, place.ranks, D::pack_bytes));
      if (!all_reduce(ring, place)) return;
    }

    ring.advance();
  }
};

}  // namespace plait::ring
