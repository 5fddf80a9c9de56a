// What descriptors of one-hop algorithms have in common (algorithms/building_blocks/direct.hpp).
#pragma once
#include "algorithms/building_blocks/direct.hpp"
#include "algorithms/building_blocks/direct_collectives.hpp"
#include "algorithms/building_blocks/laned_algorithm.hpp"

namespace plait {

/// One of the collectives that one hop can serve.
class DirectAlgorithm : public LanedAlgorithm {
 public:
  using LanedAlgorithm::LanedAlgorithm;

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const final {
    // 2 H200, direct_ll128 with 128 blocks: broadcast of 1 MB 6.2 us with 256 threads, 6.8 with 288; reduce_scatter of 2 MB 7.1 and 7.6, of
    // 16 MB 31.2 and with 480 34.5 (2026-11-22, tools/gpu-sweep.sh). oneshot_ll128 likes few passes better.
    return shapes_for(units_of(call.block_bytes()), topology, 256);
  }

  double estimate(const Call& call, const Topology& topology) const final {
    const auto block = static_cast<double>(call.block_bytes());
    const double waits = direct_pattern(call).rooted() ? 0.4 : 0;  // until all have been heard of
    return topology.launch_us + waits + rounds(block, topology) * hop_us(topology) + sending(direct_bytes(call, topology), topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const DirectArgs args{.lanes = lanes_of(context),
                          .reduction = reduction_of(call, topology),
                          .pattern = direct_pattern(call),
                          .send = buffers.send,
                          .recv = buffers.recv,
                          .count = call.count,
                          .stripes = Parts::of(units_of(call.block_bytes()), shape.blocks, shape.threads / threads_a_unit(topology))};
    context.launch(name(), args.pattern.reduces ? call.type : moved_as(call.type), shape, args);
  }
};

}  // namespace plait
