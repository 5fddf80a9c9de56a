// Channels: how data travel in chunks between blocks of the same number, through slots in the
// receiver's scratch memory. Every algorithm that sends chunks uses the same channels, one call
// after the other.
//
// A channel leads from one rank to another, for one block and one of two ways (so that two streams
// of chunks need not keep one order). It has some memory at the receiver, which a call divides into
// `slots` slots as it likes, and two counters that only grow:
//   published  written by the sender into the receiver's memory, after it has filled a slot;
//   consumed   written by the receiver into the sender's memory, after it has emptied one.
// Each side polls its own memory. A call numbers its chunks of a channel from 0, and chunk k lies
// in slot k modulo slots.
//
// Why this is enough. A counter has one writer. The sender's stores to a slot come before its
// release of `published` (the block's `sync` makes one thread's release speak for all), and the
// receiver's `wait` is the acquire; the receiver's loads come before its release of `consumed` in
// the same way, and the sender acquires that before it fills the slot again: chunk k waits until
// chunk k - slots of this call has been consumed, or, if there is none, until everything of earlier
// calls has been. All chunks that a call sends are received in that call, so both sides know where
// the counters stand when the next one begins: no handshake at the end, and a captured launch can
// be replayed. Counters are compared as signed differences: they may wrap.
//
// Sender and receiver compute the size of a chunk from the same arguments.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/device/device.hpp"

namespace plait {

/// What a peer writes into this rank's signal memory, for one channel in each direction; a cache
/// line of its own.
struct alignas(64) ChannelSignals {
  std::uint32_t published;  // chunks that the peer has sent here
  std::uint32_t consumed;   // of the chunks that were sent to the peer
};

/// This rank's own counters of the channels from and to one peer, up to the last call.
struct ChannelState {
  std::uint32_t sent, received;
};

/// A word to wait for, and a word to signal.
struct ChannelWait {
  const std::uint32_t* word;
  std::uint32_t at_least;
};
struct ChannelSignal {
  std::uint32_t* word;
  std::uint32_t value;
};

/// All channels of a rank; a kernel's argument.
struct Channels {
  static constexpr unsigned ways = 2, max_blocks = 256, max_slots = 16;

  WindowView slot_memory, signal_memory;
  ChannelState* states;  // in device memory
  std::uint32_t slots;   // of a channel: see `can_have`; the same on all ranks
  std::uint32_t slot_bytes;
  std::uint32_t blocks;  // that have channels
  int rank, ranks;

  /// In the memory of `owner`: what it shares with `peer`. A peer's channels lie together, so that
  /// a call that goes to one peer only touches few pages (4 H200, 384 MB of scratch memory, 1 GB:
  /// chain 2969 us, 3075 with the peers of a block together; 2026-11-22).
  PLAIT_DEVICE constexpr std::uint32_t index(unsigned block, unsigned way, int owner,
                                             int peer) const {
    const int lane = peer - owner - 1 + (peer < owner ? ranks : 0);
    return (static_cast<unsigned>(lane) * blocks + block) * ways + way;
  }
  /// Powers of two: chunk k's slot is found by a mask.
  static constexpr bool can_have(std::uint32_t slots) {
    return slots != 0 && slots <= max_slots && (slots & (slots - 1)) == 0;
  }
  static constexpr std::size_t count(int ranks, unsigned blocks) {
    return std::size_t{blocks} * ways * static_cast<unsigned>(ranks - 1);
  }
};

/// One block's ends of its channels; `k` numbers the call's chunks of the channel.
class BlockChannels {
 public:
  PLAIT_DEVICE BlockChannels(const Channels& channels, unsigned block)
      : c_(channels), block_(block) {}

  /// Where chunk k to, or from, a peer lies.
  template <class P>
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, std::uint32_t k) const {
    return reinterpret_cast<P*>(c_.slot_memory.peer_ptr(peer, offset(way, peer, c_.rank, k)));
  }
  template <class P>
  PLAIT_DEVICE const P* incoming(unsigned way, int peer, std::uint32_t k) const {
    return reinterpret_cast<const P*>(c_.slot_memory.own + offset(way, c_.rank, peer, k));
  }

  /// The slot of chunk k may be filled; chunk k has arrived.
  PLAIT_DEVICE ChannelWait may_send(unsigned way, int peer, std::uint32_t k) const {
    const std::uint32_t earlier = k < c_.slots ? 0 : k + 1 - c_.slots;
    return {&signals(c_.rank, way, peer)->consumed, state(way, peer).sent + earlier};
  }
  PLAIT_DEVICE ChannelWait has_arrived(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(c_.rank, way, peer)->published, state(way, peer).received + k + 1};
  }

  /// Says that chunk k has been sent; that chunk k has been used.
  PLAIT_DEVICE ChannelSignal publish(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(peer, way, c_.rank)->published, state(way, peer).sent + k + 1};
  }
  PLAIT_DEVICE ChannelSignal consume(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(peer, way, c_.rank)->consumed, state(way, peer).received + k + 1};
  }

  /// At the end of a call, by one thread a way and peer, after all threads have made their last use
  /// of the channel. Apart, as one block may send and another receive.
  PLAIT_DEVICE void advance_sent(unsigned way, int peer, std::uint32_t chunks) const {
    state(way, peer).sent += chunks;
  }
  PLAIT_DEVICE void advance_received(unsigned way, int peer, std::uint32_t chunks) const {
    state(way, peer).received += chunks;
  }

 private:
  PLAIT_DEVICE std::size_t offset(unsigned way, int owner, int writer, std::uint32_t k) const {
    return (std::size_t{c_.index(block_, way, owner, writer)} * c_.slots + (k & (c_.slots - 1))) *
           c_.slot_bytes;
  }
  PLAIT_DEVICE ChannelSignals* signals(int owner, unsigned way, int peer) const {
    return reinterpret_cast<ChannelSignals*>(c_.signal_memory.peer_ptr(owner)) +
           c_.index(block_, way, owner, peer);
  }
  PLAIT_DEVICE ChannelState& state(unsigned way, int peer) const {
    return c_.states[c_.index(block_, way, c_.rank, peer)];
  }

  const Channels& c_;
  unsigned block_;
};

}  // namespace plait
