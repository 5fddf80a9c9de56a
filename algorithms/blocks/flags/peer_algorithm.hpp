// Base class for descriptors of algorithms that read or write the peers' buffers in symmetric
// memory, and whose blocks meet those of the same number (algorithms/blocks/flags/block_peers.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "algorithms/blocks/flags/block_peers.hpp"
#include "algorithms/contract/budget.hpp"
#include "algorithms/contract/collective_algorithm.hpp"

namespace plait {

/// Memory for the signals of up to `max_blocks` blocks.
inline Resources peer_signals_for(unsigned max_blocks, int ranks) {
  return {.scratch_bytes = 0, .signals = block_slots(max_blocks, ranks), .counters = max_blocks};
}
inline PeerSignals peer_signals(const LaunchContext& context, const Grant& grant) {
  return {.signals = grant.signals,
          .epochs = grant.counters,
          .rank = context.rank(),
          .ranks = context.ranks()};
}

/// An algorithm that serves several collectives uses the same signals for all of them, one call
/// after the other.
class PeerAlgorithm : public CollectiveAlgorithm {
 public:
  explicit PeerAlgorithm(unsigned max_blocks, Collective collective = Collective::all_reduce)
      : CollectiveAlgorithm(collective), max_blocks_(max_blocks) {}

  SharedResources shared(const Topology& topology) const override {
    return {.name = family(), .resources = peer_signals_for(max_blocks_, topology.ranks)};
  }

  /// There are signals for `max_blocks` blocks.
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {std::min(shape.blocks, max_blocks_), shape.threads};
  }

 protected:
  Support supports_call(const Call& call, const Topology&) const override {
    return in_symmetric_memory(call);
  }

  PeerSignals signals(const LaunchContext& context) const {
    return peer_signals(context, context.shared());
  }
  /// Microseconds beside the data: a launch and two barriers.
  static double overhead_us(const Topology& topology) {
    return topology.launch_us + 2 * topology.signal_us;
  }
  /// Shapes for `bytes` that a rank's blocks share: one pack per thread, with as many blocks as
  /// each of `limits` allows.
  std::vector<LaunchShape> shapes_for(std::size_t bytes, unsigned threads,
                                      std::initializer_list<unsigned> limits,
                                      const Topology& topology) const {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    std::vector<LaunchShape> shapes;
    for (const unsigned limit : limits)
      shapes.push_back(
          {blocks_for(bytes, std::size_t{threads} * 16, std::clamp(limit, 1u, max_blocks_)),
           threads});
    return shapes;
  }
  unsigned max_blocks() const { return max_blocks_; }

 private:
  unsigned max_blocks_;
};

}  // namespace plait
