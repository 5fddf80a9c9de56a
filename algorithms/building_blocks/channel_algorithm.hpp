// What descriptors of algorithms that send through channels have in common (algorithms/building_blocks/channel.hpp).
#pragma once
#include <algorithm>

#include "algorithms/building_blocks/channel.hpp"
#include "core/all_reduce_algorithm.hpp"
#include "core/budget.hpp"

namespace plait {

class ChannelAlgorithm : public AllReduceAlgorithm {
 public:
  SharedResources shared(const Topology& topology) const final {
    const std::size_t channels = Channels::count(topology.ranks);
    return {.name = "channels",
            .resources = {.scratch_bytes = channels * Channels::slots * slot_bytes(topology),
                          .signals = channels * sizeof(ChannelSignals) / sizeof(std::uint32_t),
                          .counters = channels * sizeof(ChannelState) / sizeof(std::uint32_t)}};
  }

 protected:
  static constexpr unsigned max_blocks = Channels::max_blocks;

  /// Half of the scratch memory for all channels; slots of 1 KB to 64 KB, and of whole KB.
  static std::uint32_t slot_bytes(const Topology& topology) {
    constexpr std::size_t grain = 1024, most = 64;
    const std::size_t slots = std::max<std::size_t>(Channels::count(topology.ranks), 1) * Channels::slots;
    return static_cast<std::uint32_t>(grain * std::clamp<std::size_t>(topology.scratch_limit / 2 / slots / grain, 1, most));
  }

  static Channels channels(const LaunchContext& context) {
    return {.slot_memory = context.shared().scratch,
            .signal_memory = context.shared().signals,
            .states = reinterpret_cast<ChannelState*>(context.shared().counters),
            .slot_bytes = slot_bytes(context.topology()),
            .rank = context.rank(),
            .ranks = context.ranks()};
  }
};

}  // namespace plait
