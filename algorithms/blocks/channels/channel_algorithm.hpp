// Base class for descriptors of algorithms that send through channels
// (algorithms/blocks/channels/channel.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/channel.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"
#include "plait/error.hpp"

namespace plait {

/// The number and the size of a rank's channels.
struct ChannelMemory {
  int ranks;
  unsigned blocks;        // that have channels for collectives and messages
  std::uint32_t bytes;    // per channel
  std::string_view name;  // under which algorithms share the memory
  /// Further blocks. The last is for `NumberedChannels`, and between nodes the one before it for
  /// one-sided calls (window_request.hpp).
  unsigned reserved = 0;
  static constexpr std::size_t least_bytes = 4096;
  static constexpr unsigned least_blocks = 8;

  /// 4 KB to `most_bytes` per channel, for as many blocks, a power of two up to `most`, as `budget`
  /// allows with at least 4 KB per channel, and for `reserved` more.
  static ChannelMemory within(std::size_t budget, int ranks, unsigned most, std::string_view name,
                              std::size_t most_bytes, unsigned reserved = 0) {
    const std::size_t most_units = most_bytes / least_bytes;
    static_assert(least_bytes % (std::size_t{Channels::max_slots} * 64) == 0,
                  "slots are whole packs on every target");
    const auto channels = [&](unsigned blocks) {
      return std::max<std::size_t>(Channels::count(ranks, blocks), 1);
    };
    const unsigned blocks = slots_within(budget, channels(1) * least_bytes, least_blocks, most);
    const std::size_t units =
        std::clamp<std::size_t>(budget / channels(blocks + reserved) / least_bytes, 1, most_units);
    return {ranks, blocks, static_cast<std::uint32_t>(least_bytes * units), name, reserved};
  }

  unsigned all_blocks() const { return blocks + reserved; }

  /// The number of `owner`'s first channel to or from `peer`; those of each peer lie together.
  std::size_t first(int owner, int peer) const {
    return Channels::lane(owner, peer, ranks) * lane();
  }
  /// The number of channels to or from one peer.
  std::size_t lane() const { return std::size_t{all_blocks()} * Channels::ways; }

  SharedResources resources() const {
    const std::size_t channels = Channels::count(ranks, all_blocks());
    return {.name = name,
            .resources = {.scratch_bytes = channels * bytes,
                          .signals = channels * sizeof(ChannelSignals) / sizeof(std::uint32_t),
                          .counters = channels * sizeof(ChannelState) / sizeof(std::uint32_t)}};
  }
};

/// The number of blocks that have channels where ranks are on several nodes. Proxies look at the
/// words of each channel, and a network is busy with a few chunks at once.
inline constexpr unsigned blocks_between_nodes = ChannelMemory::least_blocks;

inline unsigned most_blocks_with_channels(const Topology& topology) {
  if (topology.nodes > 1) return blocks_between_nodes;
  return topology.backend == BackendKind::host
             ? Channels::max_blocks
             : std::clamp(most_in_pairs(topology.units), ChannelMemory::least_blocks,
                          Channels::max_blocks);
}

/// The channels that collectives share: half of the scratch memory. Fewer blocks have channels
/// where the scratch memory or the device is small. Between nodes two more blocks have some.
inline ChannelMemory channel_memory(const Topology& topology) {
  // A network holds more bytes on their way than a link of a node.
  const std::size_t most_bytes = std::size_t{topology.nodes > 1 ? 1024u : 256u} << 10;
  return ChannelMemory::within(topology.scratch_limit / 2, topology.ranks,
                               most_blocks_with_channels(topology), "channels", most_bytes,
                               topology.nodes > 1 ? 2 : 0);
}

/// The channels among the ranks of each node, where there are several nodes.
inline ChannelMemory node_channel_memory(const Topology& topology) {
  return ChannelMemory::within(topology.scratch_limit / 4, topology.node_ranks,
                               blocks_between_nodes, "channels of the node", std::size_t{1} << 20,
                               1);
}

class ChannelAlgorithm : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;

  bool spans_nodes() const override { return true; }

  /// The least bytes of a stripe and of a chunk. Between nodes, those that share a frame would be
  /// more threads or steps, and gain nothing.
  static std::size_t chunk_grain(LaunchShape shape, const Topology& topology) {
    const std::size_t grain = stripe_grain(shape.threads);
    return topology.nodes == 1 ? grain : std::max(grain, most_inline_bytes);
  }
  SharedResources shared(const Topology& topology) const override {
    return memory(topology).resources();
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const override {
    return {std::min(shape.blocks, blocks(topology)), shape.threads};
  }

 protected:
  static constexpr unsigned max_blocks = Channels::max_blocks;

  static ChannelMemory memory(const Topology& topology) { return channel_memory(topology); }
  static unsigned most_blocks(const Topology& topology) {
    return most_blocks_with_channels(topology);
  }
  static unsigned blocks(const Topology& topology) { return memory(topology).blocks; }
  static std::uint32_t channel_bytes(const Topology& topology) { return memory(topology).bytes; }

  /// Whether 256 blocks of 256 threads beat blocks of full size, for algorithms that exchange with
  /// one peer at a time. With 2 H200 and 64 MB, halving_doubling and tree reach 318 and 334 GB/s
  /// with small blocks, 286 and 301 without. With 4 H200 they may fall to a tenth
  /// (docs/algorithms/tree.md; 2026-11-21).
  static bool small_blocks(const Call& call, const Topology& topology) {
    return topology.ranks == 2 && call.bytes() >= std::size_t{16} << 20 &&
           topology.block_threads >= 256;
  }

  /// A rank's channels, each cut into `slots` slots. Throws Error(invalid_argument) unless
  /// `Channels::can_have(slots)`.
  static Channels channels(const LaunchContext& context, std::uint32_t slots) {
    return channels(context, slots, memory(context.topology()), context.shared());
  }
  static Channels channels(const LaunchContext& context, std::uint32_t slots,
                           const ChannelMemory& memory, const Grant& granted) {
    if (!Channels::can_have(slots))
      throw Error(ErrorCode::invalid_argument, "a channel can't have " + std::to_string(slots) +
                                                   " slots: a power of two up to " +
                                                   std::to_string(Channels::max_slots));
    return {.slot_memory = granted.scratch,
            .signal_memory = granted.signals,
            .states = reinterpret_cast<ChannelState*>(granted.counters),
            .slots = slots,
            .slot_bytes = memory.bytes / slots,
            .blocks = memory.all_blocks(),
            .rank = context.rank(),
            .ranks = context.ranks(),
            .flags = 0,
            .notes = context.nodes() != nullptr ? context.nodes()->notes : nullptr};
  }

  /// The channels of `channels` for a call with chunks of up to `chunk_bytes` bytes. Between nodes,
  /// chunks that are messages by themselves have slots in device memory, if the transport reaches
  /// that. All ranks give the same number.
  static Channels with_chunks(Channels channels, std::size_t chunk_bytes,
                              const LaunchContext& context) {
    const NodeSetting* const nodes = context.nodes();
    if (nodes == nullptr || nodes->device_slots.own == nullptr || chunk_bytes <= most_inline_bytes)
      return channels;
    channels.slot_memory = nodes->device_slots;
    channels.flags |= ChunkNote::on_device;
    return channels;
  }
};

}  // namespace plait
