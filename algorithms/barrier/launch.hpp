// The barrier as a step of other algorithms, between their copies.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "algorithms/barrier/kernel.hpp"
#include "algorithms/blocks/flags/peer_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"

namespace plait::barrier {

/// The memory for any number of barriers that follow one another.
inline Resources resources(const Topology& topology) { return peer_signals_for(1, topology.ranks); }

/// A barrier needs one block, and `resources` are for one.
inline LaunchShape one_block(LaunchShape shape) { return {1, shape.threads}; }
inline LaunchShape shape(const Topology& topology) {
  return {.blocks = 1, .threads = std::min(32u, topology.block_threads)};
}

/// `memory`: the grant for `resources`.
inline void launch(LaunchContext& context, const Grant& memory, LaunchShape shape) {
  context.launch("barrier", DataType::u8, shape, Args{.peers = peer_signals(context, memory)});
}

}  // namespace plait::barrier
