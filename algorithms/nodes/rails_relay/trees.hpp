// The steps of `rails_tree`.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/patterns/double_tree.hpp"
#include "algorithms/nodes/rails_relay/plan.hpp"

namespace plait::rails_relay {

/// Pieces of a stripe belong to the two trees in turn, and so do steps. Step j is row j / 2 of tree
/// j % 2. In each tree, piece k goes up and comes down in rows that the depth of the node decides,
/// `lag` rows per hop.
class Trees {
 public:
  /// `grain`: the least bytes of a piece, if the message has enough. `node_slot` and `rail_slot`:
  /// bytes, at least `Plan::pack`.
  static constexpr Plan plan(std::size_t bytes, int rails, int nodes, unsigned thread_blocks,
                             std::size_t grain, std::uint32_t node_slot, std::uint32_t rail_slot) {
    constexpr std::size_t pack = Plan::pack;
    const std::size_t slot = (node_slot < rail_slot ? node_slot : rail_slot) / pack * pack,
                      whole = (grain + pack - 1) / pack * pack, least = whole < slot ? whole : slot;
    Plan plan{};
    plan.form = Form::trees;
    plan.rails = rails;
    plan.nodes = nodes;
    plan.height = static_cast<std::uint32_t>(TreePlace::height(nodes));
    plan.blocks = Partition::of(bytes, static_cast<unsigned>(rails), pack);
    plan.stripes = Partition::of(plan.blocks.each, thread_blocks, 2 * least);
    const Range first = plan.stripes.at(0);
    plan.pieces = Chunks::of(first.size(), std::size_t{2} * pieces_per_hop * plan.height, least,
                             static_cast<std::uint32_t>(slot));
    const std::uint32_t pieces = Trees::pieces(0, plan.pieces.count(first));
    // A single piece gains nothing by waiting for others.
    plan.lag = pieces <= 1 ? 1 : pieces < Plan::most_lag ? pieces : Plan::most_lag;
    plan.on_node = plan.lag == 1 ? 1 : Plan::most_on_node;
    return plan;
  }
  /// A node's relatives in a tree.
  static constexpr Links links(int node, int nodes, int tree) {
    const TreeRelatives family = TreeRelatives::of({node, nodes, tree});
    return {{family.child[0], family.child[1]},
            family.parent,
            family.parent,
            {family.child[0], family.child[1]}};
  }

  /// `pieces`: of the stripe.
  PLAIT_DEVICE constexpr Trees(const Plan& plan, std::uint32_t pieces)
      : plan_(plan), pieces_(pieces) {}

  /// The pieces of a tree, of so many in the stripe.
  PLAIT_DEVICE static constexpr std::uint32_t pieces(int tree, std::uint32_t all) {
    return (all + 1 - static_cast<std::uint32_t>(tree)) / 2;
  }
  /// The steps of a node, whatever its depth.
  PLAIT_DEVICE constexpr std::uint32_t steps() const {
    return pieces_ == 0 ? 0
                        : 2 * (pieces(0, pieces_) + 2 * (plan_.height * plan_.lag + plan_.on_node));
  }

  /// Step j of a node with the links `own` at depth `depth` of the step's tree, and at depth
  /// `other` of the other tree. A node one deeper adds its terms `lag` rows earlier, and knows the
  /// result `lag` rows later.
  PLAIT_DEVICE constexpr Step at(std::uint32_t j, int depth, int other, const Links& own) const {
    const std::uint32_t row = j / 2, rises = rises_at(depth), falls = falls_at(depth),
                        other_rises = rises_at(other), other_falls = falls_at(other);
    const int tree = static_cast<int>(j % 2);
    const RailStep step{
        piece(row, tree, rises, other_rises), piece(row - plan_.on_node, tree, rises, other_rises),
        piece(row, tree, falls, other_falls), piece(row - plan_.on_node, tree, falls, other_falls)};
    // A tree's pieces are every second one.
    const std::uint32_t sums = step.added.place / 2, results = step.finished.place / 2;
    return {step, own, sums, sums, results, results};
  }

 private:
  /// Pieces of each tree, per hop to the root. The first and the last piece have the network for
  /// themselves for three quarters of a piece's time per hop, so this leaves a tenth of the time.
  static constexpr std::uint32_t pieces_per_hop = 8;

  /// The rows in which the first piece is scattered, and in which its result is known.
  PLAIT_DEVICE constexpr std::uint32_t rises_at(int depth) const {
    return (plan_.height - static_cast<std::uint32_t>(depth)) * plan_.lag;
  }
  PLAIT_DEVICE constexpr std::uint32_t falls_at(int depth) const {
    return (plan_.height + static_cast<std::uint32_t>(depth)) * plan_.lag + plan_.on_node;
  }
  /// The piece of a tree in a row, if its first one is in row `begin`, and that of the other tree
  /// in row `other`. Steps before have had all earlier ones of both.
  PLAIT_DEVICE constexpr RailPiece piece(std::uint32_t row, int tree, std::uint32_t begin,
                                         std::uint32_t other) const {
    const std::uint32_t k = row - begin;  // unsigned: large in rows before
    if (k >= pieces(tree, pieces_)) return {};
    const std::uint32_t t = static_cast<std::uint32_t>(tree), rows = row + t,
                        most = pieces(1 - tree, pieces_), passed = rows > other ? rows - other : 0;
    return {true, k + (passed < most ? passed : most), 2 * k + t};
  }

  const Plan& plan_;
  std::uint32_t pieces_;
};

}  // namespace plait::rails_relay
