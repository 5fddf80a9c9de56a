// How a call of `rails_tree` is cut, and what its stages do in each step. Plain arithmetic; unit
// tests simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/channels/rail_step.hpp"
#include "algorithms/blocks/patterns/double_tree.hpp"
#include "backends/device/device.hpp"

namespace plait::rails_tree {

/// Pieces of a stripe belong to the trees in turn, and so do steps. Step j is row j / 2 of tree
/// j % 2. In each tree, piece k goes up and comes down in rows that the depth of the node decides,
/// `lag` rows per hop.
struct Plan {
  static constexpr std::uint32_t slots = 8;         // of a channel, on the node and along the rail
  static constexpr std::uint32_t most_lag = 4;      // rows from a push along the rail to its use
  static constexpr std::uint32_t most_on_node = 2;  // the same on the node
  static_assert(most_lag < slots && 2 * most_on_node < slots);

  int rails, nodes;
  std::uint32_t height;        // hops from the deepest node to the root
  Parts blocks;                // of the message, in bytes: one per rail
  Parts stripes;               // of a block, in bytes: one per thread block
  Chunks chunks;               // of a stripe: the pieces
  std::uint32_t lag, on_node;  // rows

  /// `grain`: a piece has as many bytes at least, if there are enough. `node_slot` and `rail_slot`:
  /// bytes, at least `pack`.
  static constexpr Plan of(std::size_t bytes, int rails, int nodes, unsigned thread_blocks,
                           std::size_t grain, std::uint32_t node_slot, std::uint32_t rail_slot) {
    const std::size_t slot = (node_slot < rail_slot ? node_slot : rail_slot) / pack * pack,
                      whole = (grain + pack - 1) / pack * pack, least = whole < slot ? whole : slot;
    Plan plan{};
    plan.rails = rails;
    plan.nodes = nodes;
    plan.height = static_cast<std::uint32_t>(TreePlace::height(nodes));
    plan.blocks = Parts::of(bytes, static_cast<unsigned>(rails), pack);
    plan.stripes = Parts::of(plan.blocks.each, thread_blocks, 2 * least);
    const Range first = plan.stripes.at(0);
    plan.chunks = Chunks::of(first.size(), std::size_t{2} * pieces_per_hop * plan.height, least,
                             static_cast<std::uint32_t>(slot));
    const std::uint32_t pieces = plan.pieces(0, plan.chunks.count(first));
    // A single piece gains nothing by waiting for others.
    plan.lag = pieces <= 1 ? 1 : pieces < most_lag ? pieces : most_lag;
    plan.on_node = plan.lag == 1 ? 1 : most_on_node;
    return plan;
  }

  /// The pieces of a tree, of so many in the stripe.
  PLAIT_DEVICE static constexpr std::uint32_t pieces(int tree, std::uint32_t all) {
    return (all + 1 - static_cast<std::uint32_t>(tree)) / 2;
  }
  /// The steps of a node, whatever its depth.
  PLAIT_DEVICE constexpr std::uint32_t steps(std::uint32_t all) const {
    return all == 0 ? 0 : 2 * (pieces(0, all) + 2 * (height * lag + on_node));
  }

  /// What a node at depth `depth` of the step's tree, and `other` of the other tree, does in step
  /// j. A node one deeper adds its terms `lag` rows earlier, and knows the result `lag` rows later.
  PLAIT_DEVICE constexpr RailStep at(std::uint32_t j, std::uint32_t all, int depth,
                                     int other) const {
    const std::uint32_t row = j / 2, rises = rises_at(depth), falls = falls_at(depth),
                        other_rises = rises_at(other), other_falls = falls_at(other);
    const int tree = static_cast<int>(j % 2);
    return {piece(row, tree, all, rises, other_rises),
            piece(row - on_node, tree, all, rises, other_rises),
            piece(row, tree, all, falls, other_falls),
            piece(row - on_node, tree, all, falls, other_falls)};
  }
  /// The number of a piece in its channels along the rail.
  PLAIT_DEVICE static constexpr std::uint32_t number_in_tree(const RailPiece& piece) {
    return piece.place / 2;
  }

  /// The piece at a place, in bytes, in a block.
  PLAIT_DEVICE constexpr Range bytes_of(std::uint32_t place, const Range& stripe) const {
    return chunks.at(stripe, place);
  }

  static constexpr std::size_t pack = 64;  // on the widest target

 private:
  /// Pieces of each tree, per hop to the root. The first and the last piece have the network for
  /// themselves for three quarters of a piece's time per hop, so this leaves a tenth of the time.
  static constexpr std::uint32_t pieces_per_hop = 8;

  /// The rows in which the first piece is scattered, and in which its result is known.
  PLAIT_DEVICE constexpr std::uint32_t rises_at(int depth) const {
    return (height - static_cast<std::uint32_t>(depth)) * lag;
  }
  PLAIT_DEVICE constexpr std::uint32_t falls_at(int depth) const {
    return (height + static_cast<std::uint32_t>(depth)) * lag + on_node;
  }
  /// The piece of a tree in a row, if its first one is in row `begin`, and that of the other tree
  /// in row `other`. Steps before have had all earlier ones of both.
  PLAIT_DEVICE static constexpr RailPiece piece(std::uint32_t row, int tree, std::uint32_t all,
                                                std::uint32_t begin, std::uint32_t other) {
    const std::uint32_t k = row - begin;  // unsigned: large in rows before
    if (k >= pieces(tree, all)) return {};
    const std::uint32_t t = static_cast<std::uint32_t>(tree), rows = row + t,
                        most = pieces(1 - tree, all), passed = rows > other ? rows - other : 0;
    return {true, k + (passed < most ? passed : most), 2 * k + t};
  }
};

}  // namespace plait::rails_tree
