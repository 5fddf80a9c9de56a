// The barrier as a step of other algorithms, between their copies.
#pragma once
#include <algorithm>

#include "algorithms/barrier/kernel.hpp"
#include "algorithms/contract/algorithm.hpp"

namespace plait::barrier {

/// The memory for any number of barriers that follow one another.
inline Resources resources(const Topology& topology) {
  return {.scratch_bytes = 0, .signals = block_barrier_signals(1, topology.ranks), .counters = 1};
}

/// A barrier needs one block, and `resources` are for one.
inline LaunchShape one_block(LaunchShape shape) { return {1, shape.threads}; }
inline LaunchShape shape(const Topology& topology) {
  return {.blocks = 1, .threads = std::min(32u, topology.block_threads)};
}

/// `memory`: the grant for `resources`.
inline void launch(LaunchContext& context, const Grant& memory, LaunchShape shape) {
  const Args args{.signals = memory.signals,
                  .epoch = memory.counters,
                  .rank = context.rank(),
                  .ranks = context.ranks()};
  context.launch("barrier", DataType::u8, shape, args);
}

}  // namespace plait::barrier
