// The collectives that take one hop, for descriptors. Kernels know them as patterns
// (algorithms/blocks/patterns/direct_pattern.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>

#include "algorithms/blocks/patterns/direct_pattern.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/contract/collectives.hpp"

namespace plait {

inline constexpr std::array direct_collectives = {
    Collective::reduce_scatter, Collective::all_gather, Collective::broadcast, Collective::reduce,
    Collective::all_to_all,     Collective::gather,     Collective::scatter};
/// Those that only move data.
inline constexpr std::array moving_collectives = {Collective::all_gather, Collective::broadcast,
                                                  Collective::all_to_all, Collective::gather,
                                                  Collective::scatter};
/// Those that add up.
inline constexpr std::array adding_collectives = {Collective::reduce_scatter, Collective::reduce};
/// Those that cross the root's link n - 1 times when they take one hop; `chain` and `relay_ll128`
/// serve them in more hops.
inline constexpr std::array broadcast_and_reduce = {Collective::broadcast, Collective::reduce};

constexpr DirectPattern direct_pattern(Collective collective, int root) {
  const CollectiveFacts facts = facts_of(collective);
  return {.root_sends = facts.send.root_only,
          .root_receives = facts.recv.root_only,
          .block_per_target = facts.send.size == BufferFacts::Size::one_per_rank,
          .block_per_source = facts.recv.size == BufferFacts::Size::one_per_rank,
          .reduces = facts.reduces,
          .root = root};
}
constexpr DirectPattern direct_pattern(const Call& call) {
  return direct_pattern(call.collective, call.root);
}

// Kernels have these patterns as constants, without `facts_of`.
static_assert(direct_pattern(Collective::all_gather, 0).is_like(direct_patterns::all_gather));
static_assert(direct_pattern(Collective::broadcast, 0).is_like(direct_patterns::broadcast));
static_assert(direct_pattern(Collective::all_to_all, 0).is_like(direct_patterns::all_to_all));
static_assert(direct_pattern(Collective::gather, 0).is_like(direct_patterns::gather));
static_assert(direct_pattern(Collective::scatter, 0).is_like(direct_patterns::scatter));
static_assert(
    direct_pattern(Collective::reduce_scatter, 0).is_like(direct_patterns::reduce_scatter));
static_assert(direct_pattern(Collective::reduce, 0).is_like(direct_patterns::reduce));

/// Bytes that leave, or reach, the busiest rank.
inline double direct_bytes(const Call& call, const Topology& topology) {
  return std::max(topology.ranks - 1, 1) * static_cast<double>(call.block_bytes());
}

}  // namespace plait
