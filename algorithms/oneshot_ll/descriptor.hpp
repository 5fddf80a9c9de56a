// The descriptor of oneshot_ll and oneshot_ll128.
#pragma once
#include "algorithms/building_blocks/flagged_algorithm.hpp"
#include "algorithms/oneshot_ll/kernel.hpp"

namespace plait::oneshot_ll {

class OneshotAlgorithm : public FlaggedAlgorithm {
 public:
  using FlaggedAlgorithm::FlaggedAlgorithm;

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_for(units_of(call.bytes()), topology);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double pushed = std::max(topology.ranks - 1, 1) * static_cast<double>(call.bytes());
    return topology.launch_us + rounds(static_cast<double>(call.bytes()), topology) * hop_us(topology) + sending(pushed, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    const Topology& topology = context.topology();
    shape = {std::min(shape.blocks, max_blocks), whole_groups(shape.threads, topology)};
    const Args args{.scratch = context.grant().scratch,
                    .layout = layout(topology),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Parts::of(units_of(call.bytes()), shape.blocks, shape.threads / threads_a_unit(topology)),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, topology),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return static_cast<std::uint32_t>(topology.ranks); }
};

}  // namespace plait::oneshot_ll
