// The steps of `rails_ring`.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/nodes/rails_relay/plan.hpp"

namespace plait::rails_relay {

/// With N nodes, a round has N chunks of `lag` pieces each, and a period of 2 N - 2 stages of `lag`
/// turns each. In turn t, a rank sends piece t along its rail, and receives the piece that the rank
/// before it has sent in turn t - lag.
class Ring {
 public:
  /// `grain`: the least bytes of a piece, if the message has enough for all chunks. `node_slot` and
  /// `rail_slot`: bytes, at least `Plan::pack`.
  static constexpr Plan plan(std::size_t bytes, int rails, int nodes, unsigned thread_blocks,
                             std::size_t grain, std::uint32_t node_slot, std::uint32_t rail_slot) {
    constexpr std::size_t pack = Plan::pack;
    const auto n = static_cast<std::size_t>(nodes);
    const std::size_t slot = (node_slot < rail_slot ? node_slot : rail_slot) / pack * pack,
                      least = grain < slot ? divided(grain, pack) * pack : slot;
    Plan plan{};
    plan.form = Form::ring;
    plan.rails = rails;
    plan.nodes = nodes;
    plan.blocks = Partition::of(bytes, static_cast<unsigned>(rails), pack);
    plan.stripes = Partition::of(plan.blocks.each, thread_blocks, n * least);
    const std::size_t stripe = plan.stripes.each < plan.blocks.each ? plan.stripes.each
                                                                    : plan.blocks.each,
                      pieces = stripe / (n * least);
    plan.lag = pieces <= 1               ? 1
               : pieces < Plan::most_lag ? static_cast<std::uint32_t>(pieces)
                                         : Plan::most_lag;
    // A single piece gains nothing by waiting for others.
    plan.on_node = plan.lag == 1 ? 1 : Plan::most_on_node;
    const std::size_t at_once = n * plan.lag, rounds = divided(stripe, at_once * slot);
    if (rounds != 0)
      plan.pieces.bytes =
          static_cast<std::uint32_t>(divided(stripe, rounds * at_once * pack) * pack);
    return plan;
  }

  /// A node's neighbours.
  static constexpr Links links(int node, int nodes) {
    Links all;
    all.sums_from[0] = (node != 0 ? node : nodes) - 1;
    all.sums_to = node + 1 < nodes ? node + 1 : 0;
    return all;
  }

  PLAIT_DEVICE static constexpr std::uint32_t rounds(const Plan& plan, const Range& stripe) {
    const std::size_t round = static_cast<std::size_t>(plan.nodes) * plan.lag * plan.pieces.bytes;
    return stripe.size() == 0 ? 0 : static_cast<std::uint32_t>(divided(stripe.size(), round));
  }
  PLAIT_DEVICE constexpr Ring(const Plan& plan, std::uint32_t rounds)
      : plan_(plan), nodes_(static_cast<std::uint32_t>(plan.nodes)), rounds_(rounds) {}

  /// The pieces of the stripe.
  PLAIT_DEVICE constexpr std::uint32_t pieces() const { return rounds_ * nodes_ * plan_.lag; }
  /// The number of turns in which a rank sends. It receives in as many turns, from turn `lag` on.
  PLAIT_DEVICE constexpr std::uint32_t turns() const {
    return rounds_ * (2 * nodes_ - 2) * plan_.lag;
  }
  PLAIT_DEVICE constexpr std::uint32_t steps() const {
    return rounds_ == 0 ? 0 : turns() + plan_.lag + 2 * plan_.on_node;
  }

  /// Step j of a node with these neighbours.
  PLAIT_DEVICE constexpr Step at(std::uint32_t j, int node, const Links& all) const {
    const std::uint32_t turn = j - plan_.on_node;  // large if the ring has not begun
    Step step{
        {term(j, node), term(turn, node), result(turn, node), result(turn - plan_.on_node, node)},
        {},
        turn - plan_.lag,
        turn,
        turn - plan_.lag,
        turn};
    // In the first stage of a round terms meet no partial sum, and a result has been everywhere. In
    // stage N - 1 the sum is the result.
    const std::uint32_t stage = place(turn).stage;
    const bool is_first = stage == 0, is_last = step.added.exists && stage == nodes_ - 1;
    step.links.sums_from[0] = is_first ? Links::none : all.sums_from[0];
    step.links.sums_to = is_last ? Links::none : all.sums_to;
    step.links.results_from = is_last ? Links::none : all.sums_from[0];
    step.links.results_to[0] = is_first ? Links::none : all.sums_to;
    return step;
  }

 private:
  struct Place {
    std::uint32_t round, stage, piece;
  };
  PLAIT_DEVICE constexpr Place place(std::uint32_t turn) const {
    const std::uint32_t stage = turn / plan_.lag, period = 2 * nodes_ - 2;
    return {stage / period, stage % period, turn % plan_.lag};
  }
  /// The piece to which a node adds its terms in a turn. In stages 0, 1, ..., N - 1 of a round it
  /// is one of chunk `node`, `node` - 1, ..., `node` + 1; in later stages there is none.
  PLAIT_DEVICE constexpr RailPiece term(std::uint32_t turn, int node) const {
    const Place at = place(turn);
    if (turn >= turns() || at.stage >= nodes_) return {};
    return piece(at.round, at.stage, static_cast<std::uint32_t>(node), at.piece);
  }
  /// The piece whose result a node gets in a turn: in the last N stages of a round one of chunk
  /// `node` + 1, `node`, ... The last of these stages is the first one of the next round.
  PLAIT_DEVICE constexpr RailPiece result(std::uint32_t turn, int node) const {
    const Place at = place(turn);
    const std::uint32_t last = nodes_ - 1, from = static_cast<std::uint32_t>(node) + 1;
    if (turn >= turns() + plan_.lag) return {};
    if (at.stage >= last) return piece(at.round, at.stage - last, from, at.piece);
    if (at.stage == 0 && at.round != 0) return piece(at.round - 1, last, from, at.piece);
    return {};
  }
  PLAIT_DEVICE constexpr RailPiece piece(std::uint32_t round, std::uint32_t index,
                                         std::uint32_t from, std::uint32_t u) const {
    const std::uint32_t n = nodes_, chunk = (from + n - index) % n;
    return {true, (round * n + index) * plan_.lag + u, (round * n + chunk) * plan_.lag + u};
  }
  PLAIT_DEVICE static constexpr std::size_t divided(std::size_t size, std::size_t by) {
    return (size + by - 1) / by;
  }

  const Plan& plan_;
  std::uint32_t nodes_, rounds_;
};

}  // namespace plait::rails_relay
