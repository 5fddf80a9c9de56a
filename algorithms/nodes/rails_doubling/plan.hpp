// How a call of `rails_doubling` is cut, and when its stages run. Plain arithmetic; unit tests
// simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/patterns/doubling_schedule.hpp"
#include "backends/device/device.hpp"

namespace plait::rails_doubling {

struct Plan {
  static constexpr std::uint32_t slots = 8;     // of a channel, on the node and along the rail
  static constexpr std::uint32_t node_lag = 2;  // steps from a push on the node to its use
  static constexpr std::uint32_t rail_lag = 4;  // the same along the rail

  int rails;
  /// The schedule of this rank's node among the nodes. Its stages are those of the rail.
  DoublingSchedule schedule;
  Partition blocks;   // of the message, in bytes: one per rail
  Partition stripes;  // of a block, in bytes: one per thread block
  Chunks chunks;      // of a stripe
  /// The step in which a stage works on chunk 0: the first and the last one along the rail, and
  /// the one that gathers. Stages along the rail lie `lag` steps apart.
  std::uint32_t first, last, gather, lag;

  /// `node_slot` and `rail_slot`: bytes, at least `pack`.
  static constexpr Plan of(std::size_t bytes, int rails, DoublingSchedule schedule,
                           unsigned thread_blocks, std::size_t grain, std::uint32_t node_slot,
                           std::uint32_t rail_slot) {
    const std::size_t slot = (node_slot < rail_slot ? node_slot : rail_slot) / pack * pack;
    Plan plan{};
    plan.rails = rails;
    plan.schedule = schedule;
    plan.blocks = Partition::of(bytes, static_cast<unsigned>(rails), pack);
    plan.stripes = Partition::of(plan.blocks.each, thread_blocks, grain);
    plan.chunks = Chunks::of(plan.stripes.each, rail_lag, grain < slot ? grain : pack,
                             static_cast<std::uint32_t>(slot));
    // A single chunk gains nothing by waiting for others.
    const bool is_single = plan.chunks.count(plan.stripes.at(0)) <= 1;
    const std::uint32_t on_node = is_single ? 1 : node_lag,
                        stages = static_cast<std::uint32_t>(schedule.stages),
                        rounds = static_cast<std::uint32_t>(schedule.rounds);
    plan.lag = is_single ? 1 : rail_lag;
    // Where there are guests, all others come one stage after them, and guests come last.
    const bool waits = schedule.has_guests && !schedule.is_guest;
    plan.first = on_node + (waits ? plan.lag : 0);
    plan.last = plan.first + plan.lag * (schedule.is_guest ? rounds + 2 : stages - 1);
    plan.gather = plan.last + on_node;
    return plan;
  }

  /// The step in which a stage of the rail works on chunk 0.
  PLAIT_DEVICE constexpr std::uint32_t at(int stage) const {
    return stage + 1 == schedule.stages ? last : first + static_cast<std::uint32_t>(stage) * lag;
  }
  /// The chunk at a place, in bytes, in a block.
  PLAIT_DEVICE constexpr Range bytes_of(std::uint32_t place, const Range& stripe) const {
    return chunks.at(stripe, place);
  }
  /// The most bytes of a chunk. A block may be shorter than `chunks` says.
  constexpr std::size_t chunk_bytes() const {
    return chunks.bytes < blocks.each ? chunks.bytes : blocks.each;
  }

  static constexpr std::size_t pack = 64;  // on the widest target
  // The most steps from a push to its use: the terms of a node that waits for a guest.
  static_assert(node_lag + rail_lag < slots);
};

}  // namespace plait::rails_doubling
