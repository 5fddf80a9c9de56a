// The words of a channel that kernels, and the proxies between nodes, read and write.
// algorithms/blocks/channels/channel.hpp says what a channel is.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

namespace plait {

/// The words that a peer writes into this rank's signal memory, for one channel in each direction.
/// They have a cache line to themselves.
struct alignas(64) ChannelSignals {
  std::uint32_t published;  // chunks that the peer has sent to this rank
  std::uint32_t consumed;   // chunks from this rank that the peer has emptied
};

/// The place of a chunk for another node in its channel, and its size. The proxy that sends it
/// needs both, because it knows neither the call nor its slots.
struct ChunkNote {
  /// Part of an offset: the chunk lies in the channel's slots in device memory, not in those in
  /// memory of the host.
  static constexpr std::uint32_t on_device = std::uint32_t{1} << 31;
  /// Part of an offset: the call has no more chunks in this channel than slots, and before such
  /// calls use the channel again, they receive a chunk from the same peer. So the credit of this
  /// chunk may travel with that one (transport/peer.hpp has the proof).
  static constexpr std::uint32_t credit_may_wait = std::uint32_t{1} << 30;
  /// Part of an offset: the sender fills all slots of the channel, at least twice `bulk`, before it
  /// waits for a credit. So credits may wait until there are `bulk` of them.
  static constexpr std::uint32_t credit_in_bulk = std::uint32_t{1} << 29;
  static constexpr std::uint32_t bulk = 4;
  static constexpr std::uint32_t flags = on_device | credit_may_wait | credit_in_bulk;

  std::uint32_t offset, bytes;
};

/// Chunks of up to so many bytes travel in frames of several, because one message is sooner there
/// than two. Proxies copy them, so they lie in memory of the host where calls have no longer ones.
inline constexpr std::size_t most_inline_bytes = std::size_t{4} << 10;

/// Each channel to another node has a ring of as many notes as it may have slots. The note of the
/// chunk that raised `published` to v is number v modulo this.
inline constexpr std::uint32_t chunk_notes = 16;

}  // namespace plait
