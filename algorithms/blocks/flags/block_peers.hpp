// Signals between blocks of the same number on all ranks, and the barriers that they make.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "backends/device/device.hpp"

namespace plait {

/// In the memory of `owner`, the slot [block][writer]: one T for each block and each writing rank.
template <class T>
PLAIT_DEVICE T* slot_of(const WindowView& memory, unsigned block, int ranks, int owner,
                        int writer) {
  return reinterpret_cast<T*>(memory.peer_ptr(owner)) +
         std::size_t{block} * static_cast<unsigned>(ranks) + static_cast<unsigned>(writer);
}
/// The number of such slots in the memory of a rank.
constexpr std::size_t block_slots(unsigned max_blocks, int ranks) {
  return std::size_t{max_blocks} * static_cast<std::size_t>(ranks);
}

/// A part of a kernel's arguments: this rank, and the memory for signals.
struct PeerSignals {
  WindowView signals;     // `block_slots` words: [block][writer]
  std::uint32_t* epochs;  // one per block
  int rank, ranks;
};

/// This block, and the blocks of the same number on the other ranks. All threads of a block call
/// `signal`, `wait` and `finish` together.
///
/// A signal is the number of a round: the epoch, which lies in device memory, so that a captured
/// launch advances it at every replay. Each word has one writer and only grows, so a peer that is
/// one round ahead does no harm: `wait` accepts any value from its epoch on. A peer can't be two
/// rounds ahead, because for that it needs this rank's signal for the round between.
template <Device D>
class BlockPeers {
 public:
  PLAIT_DEVICE BlockPeers(D& dev, const PeerSignals& peers)
      : dev_(dev), peers_(peers), epoch_(peers.epochs[dev.block()]) {}

  /// Begins a round: tells all peers that this block has come here. Everything that its threads
  /// wrote before is visible to a block that has seen the signal.
  PLAIT_DEVICE void signal() {
    ++epoch_;
    dev_.sync();  // the block's earlier writes come before the signals below
    for (int peer = first(); peer < peers_.ranks; peer += step())
      if (peer != peers_.rank) dev_.signal(word(peer, peers_.rank), epoch_);
  }
  /// Waits until all peers have signalled the same round. False: a peer never came.
  PLAIT_DEVICE bool wait() {
    bool arrived = true;
    for (int peer = first(); peer < peers_.ranks && arrived; peer += step())
      if (peer != peers_.rank) arrived = dev_.wait(word(peers_.rank, peer), epoch_, {peer, epoch_});
    return dev_.all(arrived);
  }
  /// No block leaves before the same block of every rank has entered.
  PLAIT_DEVICE bool barrier() {
    signal();
    return wait();
  }
  /// After the last round of a launch that was complete: the next launch counts on from here.
  PLAIT_DEVICE void finish() {
    if (dev_.thread() == 0) peers_.epochs[dev_.block()] = epoch_;
  }

  PLAIT_DEVICE std::uint32_t epoch() const { return epoch_; }

 private:
  PLAIT_DEVICE int first() const { return static_cast<int>(dev_.thread()); }
  PLAIT_DEVICE int step() const { return static_cast<int>(dev_.threads()); }
  PLAIT_DEVICE std::uint32_t* word(int owner, int writer) const {
    return slot_of<std::uint32_t>(peers_.signals, dev_.block(), peers_.ranks, owner, writer);
  }

  D& dev_;
  const PeerSignals& peers_;
  std::uint32_t epoch_;
};

/// The frame of a kernel that reads or writes the peers' buffers. Calls work(dev, a) between an
/// entry barrier, after which all inputs are ready and all outputs may be written, and an exit
/// barrier, after which all results have arrived and no rank reads inputs any more. `a` is the
/// kernel's arguments, with `a.peers`. `work` is a function declared PLAIT_DEVICE: a lambda is not
/// always inlined, and of arguments that it captures clang forgets that their pointers are to
/// global memory.
template <auto work, Device D, class Args>
PLAIT_DEVICE void between_barriers(D& dev, const Args& a) {
  BlockPeers<D> peers(dev, a.peers);
  if (!peers.barrier()) return;
  work(dev, a);
  if (!peers.barrier()) return;
  peers.finish();
}

}  // namespace plait
