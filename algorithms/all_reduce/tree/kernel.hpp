// Tree all-reduce: partial sums go up a binary tree and results come down, pipelined; hops grow
// with log2(n) only, on any memory.
//
// There are two trees, and a rank has children in one of them at most (schedule.hpp): even blocks
// use the one, odd blocks the other, so that each rank sends about as much as any other. The
// message is cut into one stripe a block, and a stripe into chunks that fit a slot. In step j, a
// block does two things with two chunks:
//   1. Up: adds its own term and the children's partial sums of chunk j, and sends the sum to its
//   parent; the root finishes it instead,
//      stores it and sends the result to its children;
//   2. Down: copies the result of chunk j - lag from its parent to its output and on to its
//   children.
// Before them it waits for what both need, after them it says what it has sent and used: one wait
// and one release a step.
//
// The lag is 3 steps for each hop from the root: a chunk needs one step for each hop, up and down,
// and the third hides that signals travel. Steps without a chunk are left out, so a short stripe
// doesn't wait for its lag.
//
// Partial results travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`,
// `finish`).
//
// Cost: 2 log2(n) hops for the first chunk, pipelined after it. Out of a rank that has two children
// in the one tree and none in the other: 3 halves of the message there (one up, two down) and one
// half here (up), so 2 * bytes. Resources: both ways of the channels
// (algorithms/blocks/channels/channel.hpp, with the proof that slots may be used again) between
// parents and children: way 0 up, way 1 down.
//
// Why it can't deadlock. Take a block at depth d, of lag 3 d, in step j. It waits
//   for chunk j of its children, which they send in their step j;
//   for the slot of chunk j - 4 at its parent, which empties it in its step j - 4;
//   for the result of chunk j - 3 d, which its parent sends in its step j - 3 d + 3 (d - 1) = j - 3
//   (the root: in step j - 3, too); for the slots of results j - 3 d - 4 at its children, which
//   empty them in their step j - 3 d - 4 + 3 (d + 1) = j - 1.
// All are earlier steps, or the same step of a deeper rank. So of all blocks with one number, the
// deepest of those with the least step can go on. (A lag of slots or more a hop would wait for a
// child's step j, which waits for this one: the root that has run ahead is stopped by its
// children's credits.) Block b waits only for block b.
//
// In place is safe. Nobody else reads or writes a rank's buffers. Chunk k is read in step k and
// written in step k + lag, after a `sync`; the root's threads read what they write.
//
// All ranks get the same bits: a chunk is summed along one tree, finished at its root, then copied.
#pragma once
#include "algorithms/all_reduce/tree/schedule.hpp"
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::tree {

using Types = ReducedTypes;

struct Args {
  Channels channels;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Parts stripes;  // of the message, in bytes, one a block
  Chunks chunks;
  Relatives relatives[2];  // in each tree
  Reduction reduction;
};

template <class T, Device D>
class Tree {
 public:
  PLAIT_DEVICE Tree(D& dev, const Args& a)
      : dev_(dev),
        chunks_(a.chunks),
        channels_(a.channels, dev.block()),
        mover_(dev, a.send, a.recv, a.count, a.reduction),
        stripe_(a.stripes.at(dev.block())),
        family_(dev.block() % 2 == 0 ? a.relatives[0]
                                     : a.relatives[1]),  // no index (backends/device/device.hpp)
        steps_(Steps::of(chunks_.count(stripe_), family_.depth)) {}

  PLAIT_DEVICE void run() {
    for (std::uint32_t j = 0; j < steps_.count(); ++j) {
      const bool up = steps_.goes_up(j), down = !family_.is_root() && steps_.comes_down(j);
      if (!up && !down) continue;
      if (!ready(j)) return;
      if (up) send_up(j);
      if (down) send_down(j - steps_.lag);
      announce(j);
    }
    finish();
  }

 private:
  using P = typename ChunkMover<T, D>::P;
  static constexpr unsigned reducing = 0, results = 1;  // ways of the channels

  /// One end of a channel to a relative.
  struct Link {
    unsigned way;
    int peer;  // or none
    bool sends;
    std::uint32_t chunk;  // in this step
  };
  static constexpr unsigned links = 6;
  PLAIT_DEVICE Link link(unsigned i, std::uint32_t j) const {
    const int peer = i < 2 ? family_.parent : i < 4 ? family_.child[0] : family_.child[1];
    const bool upwards = i % 2 == 0, sends = upwards == (i < 2);
    return {upwards ? reducing : results, peer, sends, upwards ? j : j - steps_.lag};
  }
  /// Calls body(link) for the channels that are used in step j, spread over the block's threads.
  template <class Body>
  PLAIT_DEVICE void for_each_link(std::uint32_t j, Body body) {
    for (unsigned i = dev_.thread(); i < links; i += dev_.threads()) {
      const Link l = link(i, j);
      if (l.peer != Place::none && l.chunk < steps_.chunks) body(l);
    }
  }

  PLAIT_DEVICE bool ready(std::uint32_t j) {
    bool ok = true;
    for_each_link(j, [&](const Link& l) {
      if (!ok) return;
      const ChannelWait wait = l.sends ? channels_.may_send(l.way, l.peer, l.chunk)
                                       : channels_.has_arrived(l.way, l.peer, l.chunk);
      ok = dev_.wait(wait.word, wait.at_least, {l.peer, j});
    });
    return dev_.all(ok);
  }

  PLAIT_DEVICE void announce(std::uint32_t j) {
    dev_.sync();  // all threads have filled what is published, and emptied what is consumed
    for_each_link(j, [&](const Link& l) {
      const ChannelSignal signal = l.sends ? channels_.publish(l.way, l.peer, l.chunk)
                                           : channels_.consume(l.way, l.peer, l.chunk);
      dev_.signal(signal.word, signal.value);
    });
  }

  PLAIT_DEVICE void finish() {
    if (steps_.chunks == 0) return;
    dev_.sync();  // all threads have read the counters
    for (unsigned i = dev_.thread(); i < links; i += dev_.threads()) {
      const Link l = link(i, 0);
      if (l.peer == Place::none) continue;
      if (l.sends) channels_.advance_sent(l.way, l.peer, steps_.chunks);
      else channels_.advance_received(l.way, l.peer, steps_.chunks);
    }
  }

  PLAIT_DEVICE const P* incoming(unsigned way, int peer, std::uint32_t k) const {
    return peer == Place::none ? nullptr : channels_.template incoming<P>(way, peer, k);
  }
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, std::uint32_t k) const {
    return peer == Place::none ? nullptr : channels_.template outgoing<P>(way, peer, k);
  }

  PLAIT_DEVICE void send_up(std::uint32_t k) {
    const P *const first = incoming(reducing, family_.child[0], k), *const second = incoming(
                                                                        reducing, family_.child[1],
                                                                        k);
    const Range chunk = chunks_.at(stripe_, k);
    if (family_.is_root()) {
      const Slots<P, 2, 2> slots{
          {first, second},
          {outgoing(results, family_.child[0], k), outgoing(results, family_.child[1], k)}};
      mover_.template add<2, 2, true>(Own::input, chunk, slots, true);
    } else {
      const Slots<P, 2, 1> slots{{first, second}, {outgoing(reducing, family_.parent, k)}};
      mover_.template add<2, 1, false>(Own::input, chunk, slots);
    }
  }

  PLAIT_DEVICE void send_down(std::uint32_t k) {
    const Slots<P, 1, 2> slots{
        {incoming(results, family_.parent, k)},
        {outgoing(results, family_.child[0], k), outgoing(results, family_.child[1], k)}};
    mover_.template copy<2, true>(chunks_.at(stripe_, k), slots);
  }

  D& dev_;
  Chunks chunks_;
  BlockChannels channels_;
  ChunkMover<T, D> mover_;
  Range stripe_;
  Relatives family_;
  Steps steps_;
};

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    Tree<T, D>(dev, a).run();
  }
};

}  // namespace plait::tree
