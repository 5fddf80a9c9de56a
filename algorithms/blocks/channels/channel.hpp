// Channels carry data in chunks between blocks of the same number, through slots in the receiver's
// scratch memory. All algorithms that send chunks share the channels, one call after the other.
//
// A channel leads from one rank to another, for one block and one of two ways. Two ways, so that
// two streams of chunks need not keep one common order. A channel has memory at the receiver, which
// each call divides into a number of slots of its choice, and two counters that only grow:
//   published  the sender writes it into the receiver's memory after it has filled a slot;
//   consumed   the receiver writes it into the sender's memory after it has emptied a slot.
// Each side polls its own memory. A call numbers its chunks in a channel from 0, and chunk k uses
// slot k modulo `slots`. Both sides compute the size of a chunk from the same arguments.
//
// Why this is enough. Each counter has one writer. The sender's stores to a slot come before its
// release of `published`, and the receiver's `wait` is the acquire; the block's `sync` makes one
// thread's release speak for all. In the same way, the receiver's loads come before its release of
// `consumed`, which the sender acquires before it fills the slot again: chunk k waits until chunk
// k - slots of this call has been consumed or, if there is none, until all chunks of earlier calls
// have. All chunks that a call sends are received in the same call, so both sides know the counters
// when the next call begins: it needs no handshake at the end, and a captured launch can be
// replayed. Counters are compared as signed differences, because they may wrap.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "backends/device/channel_words.hpp"
#include "backends/device/device.hpp"

namespace plait {

/// Counts of all earlier calls, one per block, way and peer: the chunks to and from the peer. Way 0
/// also counts the calls that used the two ways in turn (`turn_to_send`).
struct ChannelState {
  std::uint32_t sent, received;
  std::uint32_t turns_sent, turns_received;
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

/// All channels of a rank, as a kernel's argument.
struct Channels {
  static constexpr unsigned ways = 2, max_blocks = 256, max_slots = chunk_notes;

  WindowView slot_memory, signal_memory;
  ChannelState* states;  // in device memory
  std::uint32_t slots;   // per channel, the same on all ranks: see `can_have`
  std::uint32_t slot_bytes;
  std::uint32_t blocks;  // that have channels
  int rank, ranks;
  /// The flags of `ChunkNote` in all notes of the call.
  std::uint32_t flags = 0;
  /// Between nodes, in memory of the host: `chunk_notes` per channel from this rank. Null on one
  /// node.
  ChunkNote* notes = nullptr;

  /// Index, in the memory of `owner`, of the channel that it shares with `peer`. A peer's channels
  /// lie together, so a call that goes to one peer touches few pages (4 H200, 384 MB of scratch
  /// memory, 1 GB: chain 2969 us, 3075 us with the peers of a block together; 2026-11-22).
  PLAIT_DEVICE constexpr std::uint32_t index(unsigned block, unsigned way, int owner,
                                             int peer) const {
    return index(block, way, lane(owner, peer, ranks));
  }
  PLAIT_DEVICE constexpr std::uint32_t index(unsigned block, unsigned way, unsigned lane) const {
    return (lane * blocks + block) * ways + way;
  }
  /// The number by which the window, and reports, know a rank.
  PLAIT_DEVICE constexpr int number_of(int peer) const { return peer; }
  /// The number of a peer's channels among those of all peers.
  PLAIT_DEVICE static constexpr unsigned lane(int owner, int peer, int ranks) {
    return static_cast<unsigned>(peer - owner - 1 + (peer < owner ? ranks : 0));
  }
  /// A power of two, because a mask finds the slot of chunk k.
  static constexpr bool can_have(std::uint32_t slots) {
    return slots != 0 && slots <= max_slots && (slots & (slots - 1)) == 0;
  }
  static constexpr std::size_t count(int ranks, unsigned blocks) {
    return std::size_t{blocks} * ways * static_cast<unsigned>(ranks - 1);
  }
};

/// The ranks of a group, as the memory of the channels numbers them.
struct Members {
  const std::int32_t* numbers = nullptr;  // in device memory
  std::uint32_t stride = 1;               // from one rank's number to the next one's
  /// The number of ranks that have channels in the memory, by their numbers there; 0: only those of
  /// the group have, by their numbers in the group.
  int in_memory = 0;
};

/// The channels of a group of some of the ranks: `rank` and `ranks` count in the group.
struct GroupChannels : Channels {
  Members members;

  PLAIT_DEVICE constexpr int number_of(int member) const {
    return members.numbers[static_cast<unsigned>(member) * members.stride];
  }
  PLAIT_DEVICE constexpr std::uint32_t index(unsigned block, unsigned way, int owner,
                                             int peer) const {
    return Channels::index(block, way,
                           members.in_memory == 0
                               ? lane(owner, peer, ranks)
                               : lane(number_of(owner), number_of(peer), members.in_memory));
  }
};

/// One block's ends of its channels. `k` is the number of a chunk in its channel and call.
template <class All>
class ChannelsOfBlock {
 public:
  PLAIT_DEVICE ChannelsOfBlock(const All& channels, unsigned block) : c_(channels), block_(block) {}

  /// The slot of chunk k to a peer, and from a peer.
  template <class P>
  PLAIT_DEVICE P* outgoing(unsigned way, int peer, std::uint32_t k) const {
    return reinterpret_cast<P*>(
        c_.slot_memory.peer_ptr(c_.number_of(peer), offset(way, peer, c_.rank, k)));
  }
  template <class P>
  PLAIT_DEVICE const P* incoming(unsigned way, int peer, std::uint32_t k) const {
    return reinterpret_cast<const P*>(c_.slot_memory.own + offset(way, c_.rank, peer, k));
  }

  /// Waits until the slot of chunk k may be filled, and until chunk k has arrived.
  PLAIT_DEVICE ChannelWait may_send(unsigned way, int peer, std::uint32_t k) const {
    const std::uint32_t earlier = k < c_.slots ? 0 : k + 1 - c_.slots;
    return {&signals(c_.rank, way, peer)->consumed, state(way, peer).sent + earlier};
  }
  PLAIT_DEVICE ChannelWait has_arrived(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(c_.rank, way, peer)->published, state(way, peer).received + k + 1};
  }

  /// Signals that chunk k, of `bytes` bytes, is in its slot, and that its slot has been emptied.
  /// The thread that calls `publish` gives the signal.
  PLAIT_DEVICE ChannelSignal publish(unsigned way, int peer, std::uint32_t k,
                                     std::size_t bytes) const {
    note(way, peer, k, bytes);
    return publish(way, peer, k);
  }
  /// The two parts of `publish`, where all notes of a step are written before its signals.
  PLAIT_DEVICE void note(unsigned way, int peer, std::uint32_t k, std::size_t bytes) const {
    if (c_.notes == nullptr) return;
    const std::uint32_t value = state(way, peer).sent + k + 1;
    c_.notes[c_.index(block_, way, c_.rank, peer) * chunk_notes + value % chunk_notes] = {
        c_.flags + (k & (c_.slots - 1)) * c_.slot_bytes, static_cast<std::uint32_t>(bytes)};
  }
  PLAIT_DEVICE ChannelSignal publish(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(peer, way, c_.rank)->published, state(way, peer).sent + k + 1};
  }
  PLAIT_DEVICE ChannelSignal consume(unsigned way, int peer, std::uint32_t k) const {
    return {&signals(peer, way, c_.rank)->consumed, state(way, peer).received + k + 1};
  }

  /// The way that a call uses if it needs only one: calls use the two ways in turn. Both ends have
  /// counted the same calls, so both compute the same way. A call with few chunks then need not
  /// wait for the credits of the call before, which take as long as a message between nodes.
  PLAIT_DEVICE unsigned turn_to_send(int peer) const { return turns_sent(peer) % Channels::ways; }
  PLAIT_DEVICE unsigned turn_to_receive(int peer) const {
    return turns_received(peer) % Channels::ways;
  }
  PLAIT_DEVICE std::uint32_t turns_sent(int peer) const { return state(0, peer).turns_sent; }
  PLAIT_DEVICE std::uint32_t turns_received(int peer) const {
    return state(0, peer).turns_received;
  }
  /// At the end of such a call, beside `advance_sent` and `advance_received`.
  PLAIT_DEVICE void end_turn_to_send(int peer, std::uint32_t turns = 1) const {
    state(0, peer).turns_sent += turns;
  }
  PLAIT_DEVICE void end_turn_to_receive(int peer, std::uint32_t turns = 1) const {
    state(0, peer).turns_received += turns;
  }

  /// At the end of a call, one thread per way and peer counts the call's chunks, after the last use
  /// of the channel by any thread. Two functions, because one block may send and another receive.
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
    return reinterpret_cast<ChannelSignals*>(c_.signal_memory.peer_ptr(c_.number_of(owner))) +
           c_.index(block_, way, owner, peer);
  }
  PLAIT_DEVICE ChannelState& state(unsigned way, int peer) const {
    return c_.states[c_.index(block_, way, c_.rank, peer)];
  }

  const All& c_;
  unsigned block_;
};
using BlockChannels = ChannelsOfBlock<Channels>;
using BlockGroupChannels = ChannelsOfBlock<GroupChannels>;

/// The ends of channels of the last block, which are for small calls. Chunks are numbered through
/// all calls: chunk k waits until chunk k - slots was consumed, and not for all chunks of earlier
/// calls. So all calls have the same slots, a sender is up to so many chunks ahead, and the
/// receiver may gather credits (`ChunkNote::credit_in_bulk`). `i` is a chunk's number in its call.
///
/// Both ends count the same chunks. The counts stand where other blocks count their turns, and
/// `sent` and `received` stay zero, so the proof above holds for these numbers. Where they wrap,
/// the first chunks wait for all before.
template <class All>
class NumberedChannels {
 public:
  PLAIT_DEVICE explicit NumberedChannels(const All& channels)
      : ends_(channels, channels.blocks - 1) {}

  template <class T>
  PLAIT_DEVICE T* outgoing(int peer, std::uint32_t i) const {
    return ends_.template outgoing<T>(way, peer, ends_.turns_sent(peer) + i);
  }
  template <class T>
  PLAIT_DEVICE const T* incoming(int peer, std::uint32_t i) const {
    return ends_.template incoming<T>(way, peer, ends_.turns_received(peer) + i);
  }
  PLAIT_DEVICE ChannelWait may_send(int peer, std::uint32_t i) const {
    return ends_.may_send(way, peer, ends_.turns_sent(peer) + i);
  }
  PLAIT_DEVICE ChannelWait has_arrived(int peer, std::uint32_t i) const {
    return ends_.has_arrived(way, peer, ends_.turns_received(peer) + i);
  }
  PLAIT_DEVICE ChannelSignal publish(int peer, std::uint32_t i, std::size_t bytes) const {
    return ends_.publish(way, peer, ends_.turns_sent(peer) + i, bytes);
  }
  PLAIT_DEVICE ChannelSignal consume(int peer, std::uint32_t i) const {
    return ends_.consume(way, peer, ends_.turns_received(peer) + i);
  }
  /// At the end of a call, by one thread after the last use of the channel by any thread.
  PLAIT_DEVICE void advance_sent(int peer, std::uint32_t chunks) const {
    ends_.end_turn_to_send(peer, chunks);
  }
  PLAIT_DEVICE void advance_received(int peer, std::uint32_t chunks) const {
    ends_.end_turn_to_receive(peer, chunks);
  }

 private:
  static constexpr unsigned way = 0;
  ChannelsOfBlock<All> ends_;
};

}  // namespace plait
