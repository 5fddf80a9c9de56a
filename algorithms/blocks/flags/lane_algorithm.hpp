// Base class for descriptors of algorithms with one lane per writing rank
// (algorithms/blocks/flags/peer_lanes.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "algorithms/blocks/flags/ll_algorithm.hpp"
#include "algorithms/blocks/flags/peer_lanes.hpp"

namespace plait {

class LaneAlgorithm : public LLAlgorithm {
 public:
  /// All algorithms with lanes of the same kind of unit share these: a 16th of the scratch memory
  /// for lines, a 64th for packets.
  LaneAlgorithm(Collective collective, UnitKind unit)
      : LLAlgorithm(unit, unit.name == UnitKind::line ? 16 : 64, collective),
        name_(unit.name == UnitKind::line ? "lanes of lines" : "lanes of packets") {}

  Resources resources(const Topology&) const final { return {}; }
  SharedResources shared(const Topology& topology) const final {
    Resources resources = memory(topology);
    resources.counters *= sizeof(LanesState) / sizeof(std::uint32_t);
    return {.name = name_, .resources = resources};
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const final {
    return static_cast<std::uint32_t>(topology.ranks);
  }

  LanesArgs lanes_of(const LaunchContext& context) const {
    return {.scratch = context.shared().scratch,
            .layout = layout(context.topology()),
            .states = reinterpret_cast<LanesState*>(context.shared().counters),
            .rank = context.rank(),
            .ranks = context.ranks()};
  }

 private:
  std::string_view name_;
};

}  // namespace plait
