// The memory that messages travel through, as the host lays it out.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/flags/ll_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// The lanes of packets and lines, and the words and counters of messages that travel straight or
/// are pulled. All messages share them.
class Memory {
 public:
  explicit Memory(const Topology& topology) : topology_(topology) {}

  /// More with few ranks, so that a message to a single peer has enough blocks.
  static unsigned channels(const Topology& topology) { return topology.ranks <= 4 ? 128 : 64; }

  bool has(UnitKind unit) const {
    return unit.name == UnitKind::packet || topology_.line_threads != 0;
  }
  /// Slots per lane.
  std::uint32_t slots(UnitKind unit) const {
    const bool packets = unit.name == UnitKind::packet;
    // Half as many elsewhere: there, the shares of all algorithms together just fit if none of them
    // reaches its most.
    const bool room = topology_.scratch_limit >= std::size_t{128} << 20 && topology_.ranks <= 8;
    std::size_t all = topology_.scratch_limit / (packets ? 128 : 32) / (room ? 1 : 2);
    // The lanes take a little less than half of the base; the channels have the other half.
    if (topology_.base_limit != 0)
      all = std::min(all, topology_.base_limit / 32 * (packets ? 3 : 12));
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(all / (count() * unit.slot_bytes), 1, packets ? 1024 : 256));
  }
  Resources resources() const {
    return {
        .scratch_bytes = lane_bytes() + (topology_.peer_reads ? count() * posted_bytes : 0),
        .signals = credit_bytes() / sizeof(std::uint32_t) + 2 * straights(),
        .counters = (count() * 2 * sizeof(LaneCounters) + straights() * sizeof(StraightCounters)) /
                    sizeof(std::uint32_t)};
  }
  Lanes lanes(UnitKind unit, const Grant& grant) const {
    const bool packets = unit.name == UnitKind::packet;
    return {.units = grant.scratch.at(packets ? 0 : bytes(UnitKind::packets())),
            .credits = grant.signals.at(packets ? 0 : count() * sizeof(Packet)),
            .slots = slots(unit),
            .counters = reinterpret_cast<LaneCounters*>(grant.counters) + (packets ? 0 : count())};
  }
  Straight straight(const Grant& grant) const {
    return {.words = grant.signals.at(credit_bytes()),
            .posted = grant.scratch.at(topology_.peer_reads ? lane_bytes() : 0),
            .counters = reinterpret_cast<StraightCounters*>(
                reinterpret_cast<LaneCounters*>(grant.counters) + 2 * count()),
            .channels = channels(topology_)};
  }

 private:
  static constexpr std::size_t posted_bytes = sizeof(PostedAt) + sizeof(std::uint32_t);

  /// Pairs of channel and peer for messages without slots; pulled ones have a set for themselves.
  std::size_t straights() const { return topology_.peer_reads ? 2 * count() : count(); }
  std::size_t lane_bytes() const { return bytes(UnitKind::packets()) + bytes(UnitKind::lines()); }
  std::size_t credit_bytes() const {
    return count() * (sizeof(Packet) + (has(UnitKind::lines()) ? sizeof(Line) : 0));
  }
  /// Pairs of channel and peer.
  std::size_t count() const {
    return channels(topology_) * static_cast<std::size_t>(topology_.ranks);
  }
  /// The bytes of all lanes of one kind.
  std::size_t bytes(UnitKind unit) const {
    return has(unit) ? count() * slots(unit) * unit.slot_bytes : 0;
  }

  const Topology& topology_;
};

}  // namespace plait::pairwise
