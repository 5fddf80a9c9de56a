// How a call of `rails_ring` or `rails_tree` is cut into pieces, and what a node does with them in
// each step. Plain arithmetic; unit tests simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/channels/rail_step.hpp"
#include "backends/device/device.hpp"

namespace plait::rails_relay {

enum class Form : std::uint8_t { ring, trees };

/// ring.hpp and trees.hpp cut a call, and have the steps.
struct Plan {
  static constexpr std::uint32_t slots = 8;     // of a channel, on the node and along the rail
  static constexpr std::uint32_t most_lag = 4;  // `lag` and `on_node` at most
  static constexpr std::uint32_t most_on_node = 2;
  // In trees, a row is two steps on the node.
  static_assert(most_lag < slots && 2 * most_on_node < slots);
  static constexpr std::size_t pack = 64;  // on the widest target

  Form form;
  int rails, nodes;
  std::uint32_t height;  // of trees: hops from the deepest node to the root
  Partition blocks;      // of the message, in bytes: one per rail
  Partition stripes;     // of a block, in bytes: one per thread block
  Chunks pieces;         // of a stripe
  /// Turns of the ring, or rows of a tree, from a push to its use: along the rail, and on the node.
  std::uint32_t lag, on_node;

  /// The piece at a place, in bytes, in a block.
  PLAIT_DEVICE constexpr Range bytes_of(std::uint32_t place, const Range& stripe) const {
    return pieces.at(stripe, place);
  }
};

/// The nodes that a node meets along its rail, each a number or `none`.
struct Links {
  static constexpr int none = -1;

  int sums_from[2] = {none, none}, sums_to = none;
  int results_from = none, results_to[2] = {none, none};
};

/// What a node does in a step, and what it meets along the rail. Numbers are those of the pieces in
/// their channels there.
struct Step : RailStep {
  Links links;
  std::uint32_t sums_in, sums_out, results_in, results_out;

  PLAIT_DEVICE constexpr bool has_work() const {
    return scattered.exists || added.exists || finished.exists || gathered.exists;
  }
};

}  // namespace plait::rails_relay
