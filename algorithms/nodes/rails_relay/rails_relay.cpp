#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/nodes/rails_relay/kernel.hpp"

namespace plait::rails_relay {
namespace {

class RailsRelay : public NodesAlgorithm {
 public:
  RailsRelay() : NodesAlgorithm(Collective::all_reduce) {}
  StaticName family() const final { return "rails_relay"; }

  double estimate(const Call& call, const Topology& topology) const final {
    const double bytes = static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + (hops(topology) + 2) * topology.signal_us,
                              pushed(topology) * bytes / topology.push_bandwidth,
                              network_use(call, topology), topology);
  }

  std::string stages(const Call& call, LaunchShape shape, const Topology& topology) const final {
    const Plan plan = plan_of(call, topology, shape);
    return fmt::format(
        "reduce on the node, {} along the rail, gather on the node; {} rails, {} nodes, {} hops, "
        "pieces of {} bytes, {} under way per hop",
        way(), plan.rails, plan.nodes, hops(topology), plan.pieces.bytes, plan.lag);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const Plan plan = plan_of(call, topology, shape);
    Args args{.node = node_channels(context, Plan::slots),
              .rail = rail_channels(context, Plan::slots, plan.pieces.bytes),
              .send = buffers.send,
              .recv = buffers.recv,
              .plan = plan,
              .links = {},
              .depths = {},
              .reduction = reduction_of(call, topology)};
    link(args.rail.rank, args);
    context.launch(family(), call.type, shape, args);
  }

 protected:
  /// For `explain`: how pieces travel.
  virtual std::string_view way() const = 0;
  /// Along the rail.
  virtual int hops(const Topology& topology) const = 0;
  /// The most that a rank pushes, in messages.
  virtual double pushed(const Topology& topology) const = 0;
  virtual NetworkUse network_use(const Call& call, const Topology& topology) const = 0;
  virtual Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) const = 0;
  /// Sets what a node meets.
  virtual void link(int node, Args& args) const = 0;

  Plan usual_plan(const Call& call, const Topology& topology) const {
    return plan_of(call, topology, fitted(shapes(call, topology).front(), call, topology));
  }
  template <class Form>
  static Plan cut(const Call& call, const Topology& topology, LaunchShape shape) {
    return Form::plan(
        call.bytes(), topology.rails, topology.nodes, shape.blocks, piece_grain(topology, shape),
        node_channel_memory(topology).bytes / Plan::slots, channel_bytes(topology) / Plan::slots);
  }
};

class RailsRing final : public RailsRelay {
 public:
  StaticName name() const override { return "rails_ring"; }
  std::string_view summary() const override {
    return "as rails, but ranks of equal local number form a ring: large messages, many nodes";
  }

 protected:
  std::string_view way() const override { return "ring"; }
  int hops(const Topology& topology) const override { return 2 * (topology.nodes - 1); }
  double pushed(const Topology& topology) const override {
    const double n = topology.ranks;
    return 2 * (n - 1) / n;
  }
  Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) const override {
    return cut<Ring>(call, topology, shape);
  }
  void link(int node, Args& args) const override {
    args.links[0] = Ring::links(node, args.plan.nodes);
  }

  /// In each hop a rank sends to one other. Rounds follow each other without a gap, and each takes
  /// as many hops as the first.
  NetworkUse network_use(const Call& call, const Topology& topology) const override {
    const Plan plan = usual_plan(call, topology);
    const double nodes = topology.nodes, hops = this->hops(topology), piece = plan.pieces.bytes,
                 bytes = hops / nodes * static_cast<double>(call.bytes()),
                 rounds = Ring::rounds(plan, plan.stripes.at(0)),
                 messages = messages_of(bytes / plan.rails, piece * plan.lag, piece);
    return {.hops = hops,
            .messages = std::max(messages, hops),
            .bytes = bytes,
            .waits = std::max(rounds - 1, 0.0) * hops};
  }
};

class RailsTree final : public RailsRelay {
 public:
  StaticName name() const override { return "rails_tree"; }
  std::string_view summary() const override {
    return "as rails, but ranks of equal local number form two binary trees: many nodes";
  }

 protected:
  std::string_view way() const override { return "up and down two trees"; }
  int hops(const Topology& topology) const override {
    return 2 * TreePlace::height(topology.nodes);
  }
  /// The message on their node twice, without their own part; and half of a rail's block along each
  /// edge of a tree.
  double pushed(const Topology& topology) const override {
    const double rails = topology.rails;
    return (2 * (rails - 1) + most_edges(topology.nodes, 1) / 2.0) / rails;
  }
  Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) const override {
    return cut<Trees>(call, topology, shape);
  }
  void link(int node, Args& args) const override {
    for (const int tree : {0, 1}) {
      args.links[tree] = Trees::links(node, args.plan.nodes, tree);
      args.depths[tree] = TreePlace{node, args.plan.nodes, tree}.depth();
    }
  }

  /// Half of the message goes along each edge, up and down. The network's pipeline fills as that of
  /// `tree` does: per hop, the first piece goes up once and the last one down twice, of the four
  /// that a node sends in a row.
  NetworkUse network_use(const Call& call, const Topology& topology) const override {
    const Plan plan = usual_plan(call, topology);
    const double edges = most_edges(topology.nodes, 1), height = plan.height,
                 half = static_cast<double>(call.bytes()) / 2, piece = plan.pieces.bytes,
                 pieces = std::max(Trees::pieces(0, plan.pieces.count(plan.stripes.at(0))), 1u);
    return {.hops = static_cast<double>(hops(topology)),
            .messages = edges * messages_of(half / plan.rails, piece * plan.lag, piece),
            .bytes = edges * half * (1 + 0.75 * height / pieces),
            .waits = std::max(pieces / plan.lag - 1, 0.0)};
  }
};

const AlgorithmRegistration<RailsRing> ring;
const AlgorithmRegistration<RailsTree> tree;

}  // namespace
}  // namespace plait::rails_relay
