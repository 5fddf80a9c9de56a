// The arguments of a launch for messages: the messages, the blocks that work on each, and the
// memory that the messages travel through.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/channel.hpp"
#include "backends/device/device.hpp"

namespace plait::pairwise {

/// How a message travels. `put` stores it straight into the receiver's buffer; `open` and `close`
/// are the steps of `put` before and after its stores, with a copy engine's copy between them.
/// `pull` lets the receiver read it; `post` and `settle` are the two halves of the sender's part in
/// a `pull`, so that a rank can read its own messages between them. `own` is a message from a rank
/// to itself.
enum class Way : std::uint32_t { packets, lines, slots, put, open, close, own, pull, post, settle };

/// One end of a message; a message from a rank to itself has both ends in one.
struct alignas(16) Message {
  const void* from;
  void* to;  // also at the sender of a `put`: the receiver's buffer
  std::size_t bytes;
  Partition stripes;  // of units for packets and lines, otherwise of bytes; one per channel
  std::uint32_t channels;
  Way way;
};
static_assert(sizeof(Message) == 48, "work is copied in steps of 16 bytes");

/// All messages of a launch to, or from, one rank.
struct alignas(16) Direction {
  std::uint32_t peer, sends;          // sends: 1 to the peer, 0 from it
  std::uint32_t first, count;         // of the messages
  std::uint32_t first_block, blocks;  // of the launch
  std::uint32_t unused[2];
};
static_assert(sizeof(Direction) == 32, "work is copied in steps of 16 bytes");

/// The direction that each block works on. In memory, directions and messages follow.
struct alignas(16) Owners {
  static constexpr unsigned most_blocks = 256;
  std::uint8_t direction[most_blocks];
};

/// Rounds of the lanes to and from a peer, up to the last call.
struct LaneCounters {
  std::uint32_t sent, received;
};

/// The lanes of one kind of unit: one for each channel and writing rank. Each lane that this rank
/// writes has a credit in this rank's memory, written by the lane's reader.
struct Lanes {
  WindowView units, credits;
  std::uint32_t slots;  // per lane
  LaneCounters* counters;
};

/// Counts of the messages between this rank and a peer on one channel. For messages stored straight
/// into the receiver's buffer: offered and arrived as the receiver counts them, taken and said as
/// the sender does. For pulled messages, an arrival is a post, and an offer tells the sender that
/// its last post has been read.
struct StraightCounters {
  std::uint32_t offered, arrived, taken, said;
};

/// The address of a message to be pulled.
struct PostedAt {
  const std::byte* address;
  std::int32_t process;        // the sender's
  std::int32_t reader_handle;  // by which the receiver reads (`D::read_peer`)
};

/// The words by which the two ends of a message signal each other if it goes straight into the
/// receiver's buffer or is pulled. Pulled messages have words and counters apart, because the two
/// ends may order them differently: the receiver may close a message that a copy engine could have
/// brought after it has read a later, pulled one, while the sender stores or posts them in their
/// order.
struct Straight {
  WindowView words;  // [offers, arrivals][channel][writer], then [takes, posts][channel][writer]
  /// PostedAt [channel][writer], then the gates [channel][writer]. The reader of a pulled message
  /// enters its gate, which lies in its own memory, and the message's writer shuts it there.
  WindowView posted;
  StraightCounters* counters;  // [straight, pulled][channel][peer]
  std::uint32_t channels;
};

/// The memory that messages travel through.
struct Paths {
  Lanes packets, lines;
  Straight straight;
  std::int32_t process;  // this rank's
  Channels slots;        // shared with collectives that send through channels
  /// The most channels of a message. The chunks of a stripe in slots take turns in the channels of
  /// both ways of blocks c, c + channels, c + 2 * channels, ...; `turns` is the number of these
  /// channels.
  std::uint32_t channels;
  std::uint32_t turns;

  PLAIT_DEVICE std::uint32_t index(unsigned channel, int peer) const {
    return channel * static_cast<unsigned>(slots.ranks) + static_cast<unsigned>(peer);
  }
};

/// A launch for one message, or for two in different directions, as `send`, `recv` and `send_recv`
/// need it. Blocks from `second.first_block` on work on the second message.
struct Args {
  Paths paths;
  Direction first, second;
  Message first_message, second_message;
};

/// A launch for many messages.
struct Batch {
  Paths paths;
  const std::byte* work;   // null: the work is in `few`
  std::uint32_t messages;  // offset of the messages in the work, in bytes
  std::uint32_t unused;
  alignas(16) std::byte few[3296];
};
static_assert(offsetof(Batch, few) + sizeof(Batch::few) == sizeof(Batch), "few is the end");

}  // namespace plait::pairwise
