// The collectives that one hop can serve, for descriptors (algorithms/building_blocks/direct_pattern.hpp for kernels).
#pragma once
#include <array>

#include "algorithms/building_blocks/direct_pattern.hpp"
#include "core/algorithm.hpp"
#include "core/collectives.hpp"

namespace plait {

inline constexpr std::array direct_collectives = {Collective::reduce_scatter, Collective::all_gather, Collective::broadcast,
                                                  Collective::reduce,         Collective::all_to_all, Collective::gather,
                                                  Collective::scatter};
/// Those that add nothing up.
inline constexpr std::array moving_collectives = {Collective::all_gather, Collective::broadcast, Collective::all_to_all, Collective::gather,
                                                  Collective::scatter};
/// Those that add up.
inline constexpr std::array adding_collectives = {Collective::reduce_scatter, Collective::reduce};
/// Those that go over the root's link n - 1 times so: `chain` and `relay_ll128` serve them in more hops.
inline constexpr std::array broadcast_and_reduce = {Collective::broadcast, Collective::reduce};

inline DirectPattern direct_pattern(const Call& call) {
  const CollectiveFacts facts = facts_of(call.collective);
  return {.root_sends = facts.send.root_only,
          .root_receives = facts.recv.root_only,
          .block_a_target = facts.send.size == BufferFacts::Size::one_a_rank,
          .block_a_source = facts.recv.size == BufferFacts::Size::one_a_rank,
          .reduces = facts.reduces,
          .root = call.root};
}

/// Bytes that leave, or reach, the busiest rank.
inline double direct_bytes(const Call& call, const Topology& topology) {
  return std::max(topology.ranks - 1, 1) * static_cast<double>(call.block_bytes());
}

}  // namespace plait
