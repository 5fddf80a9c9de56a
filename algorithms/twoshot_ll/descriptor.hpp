// The descriptor of twoshot_ll and twoshot_ll128.
#pragma once
#include "algorithms/building_blocks/flagged_algorithm.hpp"
#include "algorithms/twoshot_ll/kernel.hpp"

namespace plait::twoshot_ll {

class TwoshotAlgorithm : public FlaggedAlgorithm {
 public:
  using FlaggedAlgorithm::FlaggedAlgorithm;

  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    const auto n = static_cast<unsigned>(topology.ranks);
    return shapes_for((units_of(call.bytes()) + n - 1) / n, topology);
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double moved = 2.0 * (topology.ranks - 1) / topology.ranks * static_cast<double>(call.bytes());
    const double slice = static_cast<double>(call.bytes()) / topology.ranks;
    return topology.launch_us + 2 * rounds(slice, topology) * hop_us(topology) + sending(moved, topology);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape, LaunchContext& context) const override {
    const Topology& topology = context.topology();
    shape = {std::min(shape.blocks, max_blocks), whole_groups(shape.threads, topology)};
    const Args args{.scratch = context.grant().scratch,
                    .layout = layout(topology),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .count = call.count,
                    .stripes = Parts::of(units_of(call.bytes()), shape.blocks, static_cast<unsigned>(topology.ranks)),
                    .epochs = context.grant().counters,
                    .reduction = reduction_of(call, topology),
                    .rank = context.rank(),
                    .ranks = context.ranks()};
    context.launch(name(), call.type, shape, args);
  }

 protected:
  std::uint32_t lanes(const Topology& topology) const override { return 2 * static_cast<std::uint32_t>(topology.ranks); }
};

}  // namespace plait::twoshot_ll
