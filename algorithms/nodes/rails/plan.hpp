// How a call of `rails` is cut, and when its stages run. Plain arithmetic; unit tests check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/channel_words.hpp"
#include "backends/device/device.hpp"

namespace plait::rails {

struct Plan {
  static constexpr std::uint32_t slots = 8;     // of a channel, on the node and along the rail
  static constexpr std::uint32_t node_lag = 2;  // steps from a push on the node to its use
  static constexpr std::uint32_t rail_lag = 4;  // the same along the rail
  static_assert(node_lag < slots && rail_lag < slots);

  /// What ranks do.
  struct Work {
    bool reduces, gathers;
    bool everywhere;    // all nodes reduce all blocks
    bool by_all_ranks;  // all ranks reduce all blocks, so nothing is gathered on the node
  };

  int rails, nodes;  // rails: 1 if all ranks reduce all blocks
  Work work;
  Partition blocks;  // of all-reduce: of the message, in bytes
  /// Of the others: the bytes of a block; 0: all-reduce.
  std::size_t block_bytes;
  Partition stripes;  // of a block, in bytes: one per thread block
  Chunks chunks;      // of a stripe
  /// The step in which a stage works on chunk 0. Stages that the call lacks have the number of the
  /// one before.
  struct Stages {
    std::uint32_t node, rail, collect, gather;

    static constexpr Stages of(Work work, std::uint32_t on_node, std::uint32_t on_rail) {
      Stages at{};
      at.node = work.reduces ? on_node : 0;
      at.rail = work.reduces ? at.node + on_rail : 0;
      at.collect = work.gathers && !work.everywhere ? at.rail + on_rail : at.rail;
      at.gather = work.gathers ? at.collect + on_node : at.collect;
      return at;
    }
  } at;

  /// `bytes`: of the message for all-reduce, else of a block. `node_slot` and `rail_slot`: bytes,
  /// at least 64 for each node.
  static constexpr Plan of(std::size_t bytes, int rails, int nodes, Work work, unsigned blocks,
                           std::size_t grain, std::uint32_t node_slot, std::uint32_t rail_slot) {
    const auto n = static_cast<unsigned>(nodes);
    Plan plan{};
    plan.rails = rails;
    plan.nodes = nodes;
    plan.work = work;
    const bool is_all_reduce = work.reduces && (work.gathers || work.by_all_ranks);
    plan.blocks = Partition::of(bytes, is_all_reduce ? static_cast<unsigned>(rails) * n : 1, pack);
    plan.block_bytes = is_all_reduce ? 0 : bytes;
    const std::size_t of_rail = work.everywhere ? rail_slot / n : rail_slot,
                      of_node = node_slot / n, most = of_rail < of_node ? of_rail : of_node;
    // More stripes or chunks for less than a frame takes would be more threads or steps, and gain
    // nothing.
    const std::size_t in_frame = most_inline_bytes / (work.everywhere ? n : 1) / pack * pack,
                      least = grain < in_frame ? in_frame : grain;
    plan.stripes = Partition::of(is_all_reduce ? plan.blocks.each : bytes, blocks, least);
    plan.chunks = Chunks::of(plan.stripes.each, rail_lag, least < most ? least : pack,
                             static_cast<std::uint32_t>(most / pack * pack));
    const std::uint32_t chunks = plan.chunks.count(plan.stripes.at(0));
    // A single chunk gains nothing by waiting for others.
    plan.at = Stages::of(work, chunks <= 1 ? 1 : node_lag, chunks <= 1 ? 1 : rail_lag);
    return plan;
  }

  /// Whether a call needs one way along the rail, so that calls use the two in turn.
  PLAIT_DEVICE constexpr bool takes_turns() const {
    return work.everywhere || !work.reduces || !work.gathers;
  }

  /// Block i of the larger buffer, in bytes.
  PLAIT_DEVICE constexpr Range block(unsigned i) const {
    if (block_bytes == 0) return blocks.at(i);
    return {i * block_bytes, (i + 1) * block_bytes};
  }

  /// The kinds of ends of channels, each with all peers of a group.
  enum class Group : std::uint8_t { node, rails_here, rail };
  struct End {
    Group group;
    std::uint8_t way;
    bool sends, used;
    std::uint32_t at;  // the step in which it has chunk 0
  };
  static constexpr unsigned ends = 8;
  PLAIT_DEVICE constexpr End end(unsigned i, bool has_rail) const {
    const bool passes = work.gathers && !work.everywhere;
    switch (i) {
      case 0:
        return {work.by_all_ranks ? Group::node : Group::rails_here, 0, true, work.reduces, 0};
      case 1:
        return {Group::node, 0, false, work.reduces && has_rail, at.node};
      case 2:
        return {Group::rail, 0, true, work.reduces && has_rail, at.node};
      case 3:
        return {Group::rail, 0, false, work.reduces && has_rail, at.rail};
      case 4:
        return {Group::rail, 1, true, passes && has_rail, at.rail};
      case 5:
        return {Group::rail, 1, false, passes && has_rail, at.collect};
      case 6:
        return {Group::node, 1, true, work.gathers && has_rail, at.collect};
      default:
        return {Group::rails_here, 1, false, work.gathers, at.gather};
    }
  }

  static constexpr std::size_t pack = 64;  // on the widest target
};

}  // namespace plait::rails
