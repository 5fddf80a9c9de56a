// What descriptors of algorithms that send through channels have in common (algorithms/building_blocks/channel.hpp).
#pragma once
#include <algorithm>
#include <string>

#include "algorithms/building_blocks/channel.hpp"
#include "core/budget.hpp"
#include "core/collective_algorithm.hpp"
#include "plait/error.hpp"

namespace plait {

class ChannelAlgorithm : public CollectiveAlgorithm {
 public:
  using CollectiveAlgorithm::CollectiveAlgorithm;

  SharedResources shared(const Topology& topology) const final {
    const std::size_t channels = Channels::count(topology.ranks, blocks(topology));
    return {.name = "channels",
            .resources = {.scratch_bytes = channels * channel_bytes(topology),
                          .signals = channels * sizeof(ChannelSignals) / sizeof(std::uint32_t),
                          .counters = channels * sizeof(ChannelState) / sizeof(std::uint32_t)}};
  }

  LaunchShape fitted(LaunchShape shape, const Call&, const Topology& topology) const override {
    return {std::min(shape.blocks, blocks(topology)), shape.threads};
  }

 protected:
  static constexpr unsigned max_blocks = Channels::max_blocks;

  /// Blocks that have channels: fewer where scratch memory is small, or the device.
  static unsigned blocks(const Topology& topology) {
    const unsigned most = topology.backend == BackendKind::host
                              ? max_blocks
                              : std::clamp(most_in_pairs(topology.units), least_blocks_with_channels, max_blocks);
    return slots_within(topology.scratch_limit / 2, std::max<std::size_t>(Channels::count(topology.ranks, 1), 1) * least_bytes,
                        least_blocks_with_channels, most);
  }

  /// Whether 256 blocks of 256 threads beat blocks of full size for algorithms that meet one peer at a time: with 2 H200 they reach 318 and
  /// 334 GB/s (halving_doubling and tree, 64 MB) against 286 and 301; with 4 they may fall to a tenth (docs/algorithms/tree.md;
  /// 2026-11-21).
  static bool small_blocks(const Call& call, const Topology& topology) {
    return topology.ranks == 2 && call.bytes() >= std::size_t{16} << 20 && topology.block_threads >= 256;
  }

  /// A rank's channels, each cut into `slots` slots. Throws Error(invalid_argument) if they can't be.
  static Channels channels(const LaunchContext& context, std::uint32_t slots) {
    if (!Channels::can_have(slots))
      throw Error(ErrorCode::invalid_argument,
                  "a channel can't have " + std::to_string(slots) + " slots: a power of two up to " + std::to_string(Channels::max_slots));
    return {.slot_memory = context.shared().scratch,
            .signal_memory = context.shared().signals,
            .states = reinterpret_cast<ChannelState*>(context.shared().counters),
            .slots = slots,
            .slot_bytes = channel_bytes(context.topology()) / slots,
            .blocks = blocks(context.topology()),
            .rank = context.rank(),
            .ranks = context.ranks()};
  }

  /// Half of the scratch memory for all channels; 4 KB to 256 KB each.
  static std::uint32_t channel_bytes(const Topology& topology) {
    constexpr std::size_t most = 64;
    static_assert(least_bytes % (std::size_t{Channels::max_slots} * 64) == 0, "slots are whole packs on every target");
    const std::size_t each = topology.scratch_limit / 2 / std::max<std::size_t>(Channels::count(topology.ranks, blocks(topology)), 1);
    return static_cast<std::uint32_t>(least_bytes * std::clamp<std::size_t>(each / least_bytes, 1, most));
  }

 private:
  static constexpr std::size_t least_bytes = 4096;  // of a channel
  static constexpr unsigned least_blocks_with_channels = 8;
};

}  // namespace plait
