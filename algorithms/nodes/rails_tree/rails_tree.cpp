#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/nodes/rails_tree/kernel.hpp"

namespace plait::rails_tree {
namespace {

class RailsTree final : public NodesAlgorithm {
 public:
  RailsTree() : NodesAlgorithm(Collective::all_reduce) {}
  StaticName name() const override { return "rails_tree"; }
  std::string_view summary() const override {
    return "as rails, but ranks of equal local number form two binary trees: many nodes";
  }

  /// Ranks push the message on their node twice, without their own part, and each edge of a tree
  /// carries half of a rail's block.
  double estimate(const Call& call, const Topology& topology) const override {
    const double rails = topology.rails, edges = most_edges(topology.nodes, 1),
                 moved = (2 * (rails - 1) + edges / 2) / rails * static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + (hops(topology) + 2) * topology.signal_us,
                              moved / topology.push_bandwidth, network_use(call, topology),
                              topology);
  }

  std::string stages(const Call& call, LaunchShape shape, const Topology& topology) const override {
    const Plan plan = plan_of(call, topology, shape);
    return fmt::format(
        "reduce on the node, up and down two trees along the rail, gather on the node; {} rails, "
        "{} nodes, {} hops, pieces of {} bytes, {} under way per hop",
        plan.rails, plan.nodes, 2 * plan.height, plan.chunks.bytes, plan.lag);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    const Plan plan = plan_of(call, topology, shape);
    const GroupChannels rail = rail_channels(context, Plan::slots, plan.chunks.bytes);
    const Args args{.node = node_channels(context, Plan::slots),
                    .rail = rail,
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .plan = plan,
                    .relatives = {TreeRelatives::of({rail.rank, rail.ranks, 0}),
                                  TreeRelatives::of({rail.rank, rail.ranks, 1})},
                    .reduction = reduction_of(call, topology)};
    context.launch(name(), call.type, shape, args);
  }

 private:
  static double hops(const Topology& topology) { return 2 * TreePlace::height(topology.nodes); }
  static Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) {
    return Plan::of(call.bytes(), topology.rails, topology.nodes, shape.blocks,
                    piece_grain(topology, shape), node_channel_memory(topology).bytes / Plan::slots,
                    channel_bytes(topology) / Plan::slots);
  }

  /// Half of the message goes along each edge, up and down. The network's pipeline fills as that of
  /// `tree` does: per hop, the first piece goes up once and the last one down twice, of the four
  /// that a node sends in a row.
  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const Plan plan = plan_of(call, topology, shape);
    const double edges = most_edges(topology.nodes, 1), height = plan.height,
                 half = static_cast<double>(call.bytes()) / 2, piece = plan.chunks.bytes,
                 pieces = std::max(Plan::pieces(0, plan.chunks.count(plan.stripes.at(0))), 1u);
    return {.hops = hops(topology),
            .messages = edges * messages_of(half / plan.rails, piece * plan.lag, piece),
            .bytes = edges * half * (1 + 0.75 * height / pieces),
            .waits = std::max(pieces / plan.lag - 1, 0.0)};
  }
};

const AlgorithmRegistration<RailsTree> registration;

}  // namespace
}  // namespace plait::rails_tree
