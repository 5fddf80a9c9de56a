// Tree all-reduce on any memory: partial sums go up a binary tree and results come down, pipelined,
// so hops grow with log2(n) only.
//
// There are two trees, and a rank has children in at most one of them
// (algorithms/blocks/patterns/double_tree.hpp). Even blocks use one tree, odd blocks the other, so
// all ranks send about the same amount. The message is cut into one stripe per block, and a stripe
// into chunks that fit a slot. In step j, a block handles two chunks:
//   1. Up: it adds its own term and the children's partial sums of chunk j, and sends the sum to
//      its parent. The root finishes the sum instead, stores it and sends the result to its
//      children.
//   2. Down: it copies the result of chunk j - lag from its parent to its output and on to its
//      children.
// Before them it waits for all that both need; after them it signals all that it has sent and used.
// So a step has one wait and one release.
//
// The lag is 3 steps per hop from the root: a chunk needs one step per hop up and one down, and the
// third hides the time that signals travel. A block leaves out steps without a chunk, so a short
// stripe does not wait for its lag.
//
// Partial results travel in the type of the data (`Reducer::start`, `add_partial`, `rounded`,
// `finish`).
//
// Cost: 2 log2(n) hops for the first chunk, pipelined after it. A rank that has two children in one
// tree has none in the other. In the first tree it sends 3/2 of the message (half up once and half
// down twice), in the second 1/2 (up): together 2 * bytes.
// Resources: both ways of the channels (algorithms/blocks/channels/channel.hpp proves that slots
// may be used again) between parents and children, way 0 up, way 1 down.
//
// Why it can't deadlock. Take a block at depth d in step j; its lag is 3 d. It waits
//   - for chunk j of its children, which they send in their step j;
//   - for the slot of chunk j - 4 at its parent, which the parent empties in its step j - 4;
//   - for the result of chunk j - 3 d, which its parent sends in its step j - 3 d + 3 (d - 1) = j -
//     3 (also if the parent is the root);
//   - for the slots of results j - 3 d - 4 at its children, which empty them in their step j - 3 d
//     - 4 + 3 (d + 1) = j - 1.
// All are earlier steps, or the same step of a deeper rank. So of all blocks with one number, take
// those in the least step: the deepest of them can go on. With a lag of s steps per hop, the third
// line reads j - s and the last one j - 4 + s, so 1 <= s < slots keeps both earlier than step j.
// Block b waits only for block b.
//
// In place is safe. No other rank reads or writes a rank's buffers. Chunk k is read in step k and
// written in step k + lag, after a `sync`. At the root, the threads that read a chunk write it.
//
// All ranks get the same bits: a chunk is summed along one tree, finished at its root, then copied.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/tree/schedule.hpp"
#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/patterns/double_tree.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::tree {

using Types = InRuns<ReducedTypes>;

struct Args {
  Channels channels;
  const void* send;
  void* recv;  // may equal send
  std::size_t count;
  Partition stripes;  // of the message, in bytes, one per block
  Chunks chunks;
  TreeRelatives relatives[2];  // in each tree
  Reduction reduction;

  void count_bytes(std::size_t element) { count *= element; }  // for runs
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
        // Constant indices: see `indexed_arguments` in backends/device/device.hpp.
        family_(dev.block() % 2 == 0 ? a.relatives[0] : a.relatives[1]),
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
    int peer;  // or TreePlace::none
    bool sends;
    std::uint32_t chunk;  // that this step moves
  };
  static constexpr unsigned links = 6;
  PLAIT_DEVICE Link link(unsigned i, std::uint32_t j) const {
    const int peer = i < 2 ? family_.parent : i < 4 ? family_.child[0] : family_.child[1];
    const bool upwards = i % 2 == 0, sends = upwards == (i < 2);
    return {upwards ? reducing : results, peer, sends, upwards ? j : j - steps_.lag};
  }
  /// Calls body(link) for the channel ends that step j uses, spread over the block's threads.
  template <class Body>
  PLAIT_DEVICE void for_each_link(std::uint32_t j, Body body) {
    for (unsigned i = dev_.thread(); i < links; i += dev_.threads()) {
      const Link l = link(i, j);
      if (l.peer != TreePlace::none && l.chunk < steps_.chunks) body(l);
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
      const ChannelSignal signal =
          l.sends ? channels_.publish(l.way, l.peer, l.chunk,
                                      in_whole_packs<D::pack_bytes>(chunks_.at(stripe_, l.chunk)))
                  : channels_.consume(l.way, l.peer, l.chunk);
      dev_.signal(signal.word, signal.value);
    });
  }

  /// Without a `sync`, because only the thread of a link reads its counters.
  PLAIT_DEVICE void finish() {
    if (steps_.chunks == 0) return;
    for (unsigned i = dev_.thread(); i < links; i += dev_.threads()) {
      const Link l = link(i, 0);
      if (l.peer == TreePlace::none) continue;
      if (l.sends) channels_.advance_sent(l.way, l.peer, steps_.chunks);
      else channels_.advance_received(l.way, l.peer, steps_.chunks);
    }
  }

  PLAIT_DEVICE const P* incoming(unsigned way, int peer, std::uint32_t k) const {
    return peer == TreePlace::none ? nullptr : channels_.template incoming<P>(way, peer, k);
  }
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, std::uint32_t k) const {
    return peer == TreePlace::none ? nullptr : channels_.template outgoing<P>(way, peer, k);
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
  TreeRelatives family_;
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
