// How a call of `rails_ring` is cut, and what its stages do in each step. Plain arithmetic; unit
// tests simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/rail_step.hpp"
#include "backends/device/device.hpp"

namespace plait::rails_ring {

/// With N nodes, a round has N chunks of `lag` pieces each, and a period of 2 N - 2 stages of `lag`
/// turns each. In turn t, a rank sends piece t along its rail, and receives the piece that the rank
/// before it has sent in turn t - lag.
struct Plan {
  static constexpr std::uint32_t slots = 8;         // of a channel, on the node and along the rail
  static constexpr std::uint32_t most_lag = 4;      // steps from a push along the rail to its use
  static constexpr std::uint32_t most_on_node = 2;  // the same on the node
  static_assert(most_lag < slots && most_on_node < slots);

  int rails, nodes;
  Parts blocks;                // of the message, in bytes: one per rail
  Parts stripes;               // of a block, in bytes: one per thread block
  std::uint32_t lag, on_node;  // steps
  std::uint32_t piece_bytes;

  /// `grain`: a piece has as many bytes at least, if there are enough for all chunks. `node_slot`
  /// and `rail_slot`: bytes, at least `pack`.
  static constexpr Plan of(std::size_t bytes, int rails, int nodes, unsigned thread_blocks,
                           std::size_t grain, std::uint32_t node_slot, std::uint32_t rail_slot) {
    const auto n = static_cast<std::size_t>(nodes);
    const std::size_t slot = (node_slot < rail_slot ? node_slot : rail_slot) / pack * pack,
                      least = grain < slot ? divided(grain, pack) * pack : slot;
    Plan plan{};
    plan.rails = rails;
    plan.nodes = nodes;
    plan.blocks = Parts::of(bytes, static_cast<unsigned>(rails), pack);
    plan.stripes = Parts::of(plan.blocks.each, thread_blocks, n * least);
    const std::size_t stripe = plan.stripes.each < plan.blocks.each ? plan.stripes.each
                                                                    : plan.blocks.each,
                      pieces = stripe / (n * least);
    plan.lag = pieces <= 1 ? 1 : pieces < most_lag ? static_cast<std::uint32_t>(pieces) : most_lag;
    // A single piece gains nothing by waiting for others.
    plan.on_node = plan.lag == 1 ? 1 : most_on_node;
    const std::size_t at_once = n * plan.lag, rounds = divided(stripe, at_once * slot);
    if (rounds != 0) plan.piece_bytes = divided(stripe, rounds * at_once * pack) * pack;
    return plan;
  }

  PLAIT_DEVICE constexpr std::uint32_t rounds(const Range& stripe) const {
    const std::size_t round = std::size_t{count()} * lag * piece_bytes;
    return stripe.size() == 0 ? 0 : static_cast<std::uint32_t>(divided(stripe.size(), round));
  }
  /// The turns in which a rank sends. It receives in as many, `lag` later.
  PLAIT_DEVICE constexpr std::uint32_t turns(std::uint32_t rounds) const {
    return rounds * (2 * count() - 2) * lag;
  }
  /// The pieces of a stripe.
  PLAIT_DEVICE constexpr std::uint32_t pieces(std::uint32_t rounds) const {
    return rounds * count() * lag;
  }

  /// A piece that a turn works on.
  using Piece = RailPiece;
  /// The piece to which a node adds its terms: in the first N stages of a round those of chunk
  /// `node`, `node` - 1, ...
  PLAIT_DEVICE constexpr Piece term(std::uint32_t turn, std::uint32_t rounds, int node) const {
    const Turn at = this->at(turn);
    if (turn >= turns(rounds) || at.stage >= count()) return {};
    return piece(at.round, at.stage, static_cast<std::uint32_t>(node), at.piece);
  }
  /// The piece whose result a node gets: in the last N stages those of chunk `node` + 1, `node`,
  /// ... The last stage is the first one of the next round.
  PLAIT_DEVICE constexpr Piece result(std::uint32_t turn, std::uint32_t rounds, int node) const {
    const Turn at = this->at(turn);
    const std::uint32_t last = count() - 1, from = static_cast<std::uint32_t>(node) + 1;
    if (turn >= turns(rounds) + lag) return {};
    if (at.stage >= last) return piece(at.round, at.stage - last, from, at.piece);
    if (at.stage == 0 && at.round != 0) return piece(at.round - 1, last, from, at.piece);
    return {};
  }
  /// Whether the terms in this turn meet a partial sum, and whether they are the last ones.
  PLAIT_DEVICE constexpr bool has_partial(std::uint32_t turn) const { return at(turn).stage != 0; }
  PLAIT_DEVICE constexpr bool is_last(std::uint32_t turn) const {
    return at(turn).stage == count() - 1;
  }
  /// Whether the result that arrives in this turn goes on to the next node.
  PLAIT_DEVICE constexpr bool goes_on(std::uint32_t turn) const { return at(turn).stage != 0; }

  /// The piece at a place, in bytes, in a block.
  PLAIT_DEVICE constexpr Range bytes_of(std::uint32_t place, const Range& stripe) const {
    const std::size_t begin = stripe.begin + std::size_t{place} * piece_bytes,
                      end = begin + piece_bytes;
    return {begin < stripe.end ? begin : stripe.end, end < stripe.end ? end : stripe.end};
  }

  static constexpr std::size_t pack = 64;  // on the widest target

 private:
  struct Turn {
    std::uint32_t round, stage, piece;
  };
  PLAIT_DEVICE constexpr Turn at(std::uint32_t turn) const {
    const std::uint32_t stage = turn / lag, period = 2 * count() - 2;
    return {stage / period, stage % period, turn % lag};
  }
  PLAIT_DEVICE constexpr Piece piece(std::uint32_t round, std::uint32_t index, std::uint32_t from,
                                     std::uint32_t u) const {
    const std::uint32_t n = count(), chunk = (from + n - index) % n;
    return {true, (round * n + index) * lag + u, (round * n + chunk) * lag + u};
  }
  PLAIT_DEVICE constexpr std::uint32_t count() const { return static_cast<std::uint32_t>(nodes); }
  PLAIT_DEVICE static constexpr std::size_t divided(std::size_t size, std::size_t by) {
    return (size + by - 1) / by;
  }
};

}  // namespace plait::rails_ring
