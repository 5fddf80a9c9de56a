#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/nodes/rails_doubling/kernel.hpp"

namespace plait::rails_doubling {
namespace {

/// As many rails as each node has ranks.
class RailsDoubling : public NodesAlgorithm {
 public:
  RailsDoubling() : NodesAlgorithm(Collective::all_reduce) {}
  StaticName name() const override { return "rails_doubling"; }
  StaticName family() const final { return "rails_doubling"; }
  std::string_view summary() const override {
    return "as rails, but ranks of equal local number exchange with node XOR 2^s: smaller "
           "messages, several nodes";
  }

  double estimate(const Call& call, const Topology& topology) const final {
    const DoublingSchedule schedule = rail(topology);
    // A rank pushes its terms to the other rails' ranks; that of a rail its sums to other nodes and
    // its result to the ranks of its node.
    const double rails = this->rails(topology),
                 blocks = rails - 1 + exchanges(schedule) + topology.node_ranks - 1,
                 moved = blocks / rails * static_cast<double>(call.bytes());
    return time_between_nodes(
        topology.launch_us + (hops(schedule) + signals_on_node()) * topology.signal_us,
        moved / topology.push_bandwidth, network_use(call, topology), topology);
  }

  std::string stages(const Call& call, LaunchShape shape, const Topology& topology) const final {
    const Plan plan = plan_of(call, topology, shape, rail(topology));
    std::string text = fmt::format(
        "reduce on the node, recursive doubling along the rail in {:.0f} hops, gather on the node; "
        "{} rails, {} nodes",
        hops(plan.schedule), plan.rails, topology.nodes);
    if (plan.lag == 1) return text;
    return fmt::format("{}, chunks of {} bytes, {} under way along the rail", text,
                       plan.chunk_bytes(), plan.lag);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const Topology& topology = context.topology();
    const Plan plan =
        plan_of(call, topology, shape, DoublingSchedule::of(context.nodes()->node, topology.nodes));
    GroupChannels rail = rail_channels(context, Plan::slots, plan.chunk_bytes());
    // Calls use the ways in turn, and each has a chunk from every rank that it sends to.
    if (plan.chunks.count(plan.stripes.at(0)) <= Plan::slots)
      rail.flags |= ChunkNote::credit_may_wait;
    const Args args{.node = node_channels(context, Plan::slots),
                    .rail = rail,
                    .send = buffers.send,
                    .recv = buffers.recv,
                    .plan = plan,
                    .reduction = reduction_of(call, topology)};
    context.launch(family(), call.type, shape, args);
  }

 protected:
  virtual int rails(const Topology& topology) const { return topology.rails; }
  /// Signals besides those along the rail. Counted as for `rails`, which does the same with two
  /// nodes.
  virtual double signals_on_node() const { return 3; }

 private:
  /// That of the first node, which has a guest if any has.
  static DoublingSchedule rail(const Topology& topology) {
    return DoublingSchedule::of(0, topology.nodes);
  }
  static double hops(const DoublingSchedule& schedule) {
    return schedule.rounds + (schedule.has_guests ? 2 : 0);
  }
  /// The most that a rank sends along the rail: a host also sends the result.
  static double exchanges(const DoublingSchedule& schedule) {
    return schedule.rounds + (schedule.has_guests ? 1 : 0);
  }

  Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape,
               const DoublingSchedule& schedule) const {
    return Plan::of(call.bytes(), rails(topology), schedule, shape.blocks,
                    chunk_grain(shape, topology), node_channel_memory(topology).bytes / Plan::slots,
                    channel_bytes(topology) / Plan::slots);
  }

  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const Plan plan = plan_of(call, topology, shape, rail(topology));
    const double bytes = static_cast<double>(call.bytes()),
                 chunk = static_cast<double>(plan.chunk_bytes()),
                 chunks = plan.chunks.count(plan.stripes.at(0)),
                 under_way = std::min<double>(plan.lag, chunks), sent = exchanges(plan.schedule);
    return {.hops = hops(plan.schedule),
            .messages = sent * messages_of(bytes / plan.rails, chunk * under_way, chunk),
            .bytes = sent * bytes,
            .waits = std::max(chunks / Plan::rail_lag - 1, 0.0)};
  }
};

/// One rail, for small messages: one rank of each node exchanges with other nodes.
class LeadersDoubling final : public RailsDoubling {
 public:
  StaticName name() const override { return "leaders_doubling"; }
  std::string_view summary() const override {
    return "as leaders, but the ranks that reduce for their nodes exchange with node XOR 2^s: "
           "small messages, several nodes";
  }

 protected:
  int rails(const Topology&) const override { return 1; }
  // Each rank of a node sends one message less.
  double signals_on_node() const override { return 2.5; }
};

const AlgorithmRegistration<RailsDoubling> registration;
const AlgorithmRegistration<LeadersDoubling> leaders;

}  // namespace
}  // namespace plait::rails_doubling
