// Base class for the descriptors of direct_ll and direct_ll128
// (algorithms/one_hop/direct_ll/direct_units.hpp).
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/flags/lane_algorithm.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/one_hop/direct_ll/direct_units.hpp"

namespace plait {

/// Serves one of the collectives that take one hop.
class DirectAlgorithm : public LaneAlgorithm {
 public:
  using LaneAlgorithm::LaneAlgorithm;

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const final {
    const std::size_t units = units_of(call.block_bytes());
    // 2 H200, direct_ll128 with 128 blocks: broadcast of 1 MB 6.2 us with 256 threads, 6.8 with
    // 288; reduce_scatter of 2 MB 7.1 and 7.6; of 16 MB 31.2, and 34.5 with 480 (2026-11-22,
    // tools/gpu-sweep.sh). For oneshot_ll128, fewer passes are faster.
    std::vector<LaunchShape> shapes = shapes_for(units, topology, 256);
    if (moves_lines_of_two(topology)) {
      // Fewer blocks, as many as have whole passes to do: see "Rounds and passes of lines" in
      // docs/algorithms/direct.md.
      const unsigned group = threads_per_unit(topology),
                     of_long = direct_pattern(call).root_sends ? 256 : 384;
      if (units <= 96 * of_long / group) return shapes;
      const bool is_short = units <= 2 * 112 * max_group_threads / group;
      const unsigned most = is_short ? 112 : 96, threads = is_short ? max_group_threads : of_long,
                     pass = threads / group;
      const std::size_t passes = (units + most * pass - 1) / (most * pass);
      shapes.insert(shapes.begin(),
                    {.blocks = blocks_for(units, passes * pass, most), .threads = threads});
    }
    return shapes;
  }

  double estimate(const Call& call, const Topology& topology) const final {
    const auto block = static_cast<double>(call.block_bytes());
    const double waits =
        direct_pattern(call).rooted() ? 0.4 : 0;  // until all peers have been heard of
    return topology.launch_us + waits + hop_us(block, topology) +
           sending(direct_bytes(call, topology), topology);
  }
  bool reduces_in_rank_order(const Call&, const Topology&) const override { return true; }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const DirectArgs args{.lanes = lanes_of(context),
                          .reduction = reduction_of(call, topology),
                          .pattern = direct_pattern(call),
                          .send = buffers.send,
                          .recv = buffers.recv,
                          .count = call.count,
                          .stripes = Partition::of(units_of(call.block_bytes()), shape.blocks,
                                                   shape.threads / threads_per_unit(topology)),
                          .round = round(call, topology)};
    context.launch(name(), args.pattern.reduces ? call.type : move_type(call.type), shape, args);
  }

 private:
  bool moves_lines_of_two(const Topology& topology) const {
    return topology.ranks == 2 && threads_per_unit(topology) > 1;
  }

  /// Units of a round. Each further round costs up to 0.9 us. But where only the root sends, rounds
  /// of more than 64 lines are slower (same page).
  std::uint32_t round(const Call& call, const Topology& topology) const {
    const std::uint32_t slots = layout(topology).slots;
    return direct_pattern(call).root_sends && moves_lines_of_two(topology) ? std::min(slots, 64u)
                                                                           : slots;
  }
};

}  // namespace plait
