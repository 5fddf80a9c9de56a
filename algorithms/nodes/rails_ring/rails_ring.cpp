#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/nodes/rails_ring/kernel.hpp"

namespace plait::rails_ring {
namespace {

class RailsRing final : public NodesAlgorithm {
 public:
  RailsRing() : NodesAlgorithm(Collective::all_reduce) {}
  StaticName name() const override { return "rails_ring"; }
  std::string_view summary() const override {
    return "as rails, but ranks of equal local number form a ring: large messages, many nodes";
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double n = topology.ranks, hops = 2 * (topology.nodes - 1),
                 moved = 2 * (n - 1) / n * static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + (hops + 2) * topology.signal_us,
                              moved / topology.push_bandwidth, network_use(call, topology),
                              topology);
  }

  std::string stages(const Call& call, LaunchShape shape, const Topology& topology) const override {
    const Plan plan = plan_of(call, topology, shape);
    return fmt::format(
        "reduce on the node, ring along the rail, gather on the node; {} rails, {} "
        "nodes, chunks of {} bytes, {} under way along the rail",
        plan.rails, plan.nodes, plan.piece_bytes, plan.lag);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    const Plan plan = plan_of(call, topology, shape);
    const Args args{.node = node_channels(context, Plan::slots),
                    .rail = rail_channels(context, Plan::slots, plan.piece_bytes),
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .plan = plan,
                    .reduction = reduction_of(call, topology)};
    context.launch(name(), call.type, shape, args);
  }

 private:
  static Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) {
    return Plan::of(call.bytes(), topology.rails, topology.nodes, shape.blocks,
                    piece_grain(topology, shape), node_channel_memory(topology).bytes / Plan::slots,
                    channel_bytes(topology) / Plan::slots);
  }

  /// In each hop a rank sends to one other. Rounds follow each other without a gap, and each takes
  /// as many hops as the first.
  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const Plan plan = plan_of(call, topology, shape);
    const double nodes = topology.nodes, hops = 2 * (nodes - 1), piece = plan.piece_bytes,
                 bytes = hops / nodes * static_cast<double>(call.bytes()),
                 rounds = plan.rounds(plan.stripes.at(0)),
                 messages = messages_of(bytes / plan.rails, piece * plan.lag, piece);
    return {.hops = hops,
            .messages = std::max(messages, hops),
            .bytes = bytes,
            .waits = std::max(rounds - 1, 0.0) * hops};
  }
};

const AlgorithmRegistration<RailsRing> registration;

}  // namespace
}  // namespace plait::rails_ring
