// What a launch for messages is told: which there are, which blocks work on them, and where they
// travel.
#pragma once
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/channel.hpp"
#include "backends/device/device.hpp"

namespace plait::pairwise {

/// `open` and `close` are what `put` does before and after its stores: around a copy engine's copy.
/// `post` and `settle` are the two halves of what the sender of a `pull` does, so that a rank reads
/// its own messages between them.
enum class Way : std::uint32_t { packets, lines, slots, put, open, close, own, pull, post, settle };

/// One end of a message; what a rank sends to itself has both.
struct alignas(16) Message {
  const void* from;
  void* to;  // of `put`, at the sender, too: the receiver's buffer
  std::size_t bytes;
  Parts stripes;  // of units for packets and lines, else of bytes: one a channel
  std::uint32_t channels;
  Way way;
};
static_assert(sizeof(Message) == 48, "work is copied in units of 16 bytes");

/// The messages to, or from, one rank.
struct alignas(16) Direction {
  std::uint32_t peer, sends;          // sends: 1
  std::uint32_t first, count;         // of the messages
  std::uint32_t first_block, blocks;  // of the launch
  std::uint32_t unused[2];
};
static_assert(sizeof(Direction) == 32, "work is copied in units of 16 bytes");

/// Which direction each block works on. Directions and messages follow.
struct alignas(16) Owners {
  static constexpr unsigned most_blocks = 256;
  std::uint8_t direction[most_blocks];
};

/// Rounds of the lanes to and from a peer, up to the last call.
struct LaneCounters {
  std::uint32_t sent, received;
};

/// Lanes of one kind of unit, one for each channel and writing rank; and for each lane of this
/// rank's a credit, which its reader writes here.
struct Lanes {
  WindowView units, credits;
  std::uint32_t slots;  // of a lane
  LaneCounters* counters;
};

/// Counts for one channel to and from a peer. Messages that go straight into the receiver's buffer:
/// how many were offered and arrived as the receiver counts them, and as the sender does. Messages
/// that are pulled: how many were taken and posted.
struct StraightCounters {
  std::uint32_t offered, arrived, taken, said;
};

/// Where a message to be pulled lies, in which process.
struct PostedAt {
  const std::byte* address;
  std::int32_t process, reader_handle;  // what it is read by
};

/// Where the two ends of such messages meet. What is pulled has words and counters of its own: a
/// receiver may close a message that a copy engine could have brought after it has read a later one
/// that is pulled, while the sender stores them in their order.
struct Straight {
  WindowView words;   // [offers, arrivals][channel][writer], and [takes, posts][channel][writer]
  WindowView posted;  // PostedAt [channel][writer]
  StraightCounters* counters;  // [straight, pulled][channel][peer]
  std::uint32_t channels;
};

/// Where messages travel.
struct Paths {
  Lanes packets, lines;
  Straight straight;
  std::int32_t process;    // this one
  Channels slots;          // shared with collectives that send through channels
  std::uint32_t channels;  // the most of a message; a stripe's chunks take turns in both ways'
                           // channels of blocks c, c + channels, ...
  std::uint32_t turns;     // that many
};

/// A launch for a message or two, in different directions: what `send`, `recv` and `send_recv`
/// need. The blocks from `second.first_block` on work on the second.
struct Args {
  Paths paths;
  Direction first, second;
  Message first_message, second_message;
};

/// A launch for many.
struct Batch {
  Paths paths;
  const std::byte* work;   // null: it is `few`
  std::uint32_t messages;  // bytes from the beginning of the work
  std::uint32_t unused;
  alignas(16) std::byte few[3296];
};

}  // namespace plait::pairwise
