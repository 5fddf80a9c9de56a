#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/blocks/patterns/direct_collectives.hpp"
#include "algorithms/nodes/leaders/kernel.hpp"

namespace plait::leaders {
namespace {

/// `leaders` of the collectives that take one hop. That of all-reduce is a variant of `rails`.
class Leaders final : public NodesAlgorithm {
 public:
  using NodesAlgorithm::NodesAlgorithm;
  StaticName name() const override { return "leaders"; }
  std::string_view summary() const override {
    return "one rank of each node exchanges for the others with those of the other nodes: small "
           "messages, several nodes";
  }
  LaunchShape fitted(LaunchShape shape, const Call&, const Topology&) const override {
    return {1, shape.threads};
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const Bytes bytes(call, topology);
    const double messages = topology.nodes - 1,
                 on_node = topology.node_ranks * static_cast<double>(bytes.in + bytes.out),
                 across = messages * static_cast<double>(bytes.across);
    return time_between_nodes(
        topology.launch_us + 3.5 * topology.signal_us, (on_node + across) / topology.push_bandwidth,
        {.hops = 1, .messages = messages, .bytes = across, .waits = 0}, topology);
  }
  std::string stages(const Call& call, LaunchShape, const Topology& topology) const override {
    return fmt::format("hand in, exchange, hand out; {} nodes, messages of {} bytes",
                       topology.nodes, Bytes(call, topology).across);
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    Args args{.node = node_channels(context, slots),
              .rail = rail_channels(context, slots, Bytes(call, topology).across),
              .pattern = direct_pattern(call),
              .owners = context.nodes()->owners,
              .send = buffers.send,
              .recv = buffers.recv,
              .count = call.count,
              .reduction = reduction_of(call, topology)};
    args.rail.flags |= ChunkNote::credit_in_bulk;
    context.launch(name(), args.pattern.reduces ? call.type : move_type(call.type), shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (topology.nodes == 1) return Support::no("the ranks are on one node");
    if (topology.rails * topology.nodes != topology.ranks)
      return Support::no("the nodes have different numbers of ranks");
    const Bytes bytes(call, topology);
    if (std::max(bytes.in, bytes.out) > node_channel_memory(topology).bytes / slots ||
        bytes.across > channel_bytes(topology) / slots)
      return Support::no("the message is too long for one slot");
    return {};
  }

 private:
  /// From a rank to its leader, from one leader to another, and from a leader to a rank.
  struct Bytes {
    std::size_t in, across, out;

    Bytes(const Call& call, const Topology& topology) {
      const DirectPattern pattern = direct_pattern(call);
      const auto ranks = static_cast<unsigned>(topology.ranks),
                 of_node = static_cast<unsigned>(topology.node_ranks);
      const std::size_t block = call.block_bytes();
      in = block * (pattern.block_per_target ? ranks : 1);
      out = block * (pattern.block_per_source ? ranks : 1);
      across = block * (pattern.block_per_target && !pattern.root_receives ? of_node : 1) *
               (pattern.block_per_source && !pattern.root_sends ? of_node : 1);
    }
  };
};

const FamilyRegistration<Leaders, direct_collectives> registration;

}  // namespace
}  // namespace plait::leaders
