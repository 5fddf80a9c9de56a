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
    const Rounds rounds(call, topology);
    // With a root, rounds overlap: nobody waits for what it sends. Else each waits for the last.
    const double count = static_cast<double>(rounds.count),
                 in_turn = direct_pattern(call).rooted() ? 1 : count, others = topology.nodes - 1,
                 block = static_cast<double>(call.block_bytes()),
                 on_node =
                     topology.node_ranks * static_cast<double>(rounds.in + rounds.out) * block,
                 across = others * static_cast<double>(rounds.across) * block;
    return time_between_nodes(
        topology.launch_us + (2.5 * in_turn + count) * topology.signal_us,
        (on_node + across) / topology.push_bandwidth,
        {.hops = in_turn, .messages = count * others, .bytes = across, .waits = 0}, topology);
  }
  std::string stages(const Call& call, LaunchShape, const Topology& topology) const override {
    const Rounds rounds(call, topology);
    return fmt::format("hand in, exchange, hand out; {} nodes, {} rounds with messages of {} bytes",
                       topology.nodes, rounds.count, rounds.message(call));
  }

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    const Topology& topology = context.topology();
    const Rounds rounds(call, topology);
    Args args{.node = node_channels(context, slots),
              .rail = rail_channels(context, slots, rounds.message(call)),
              .pattern = direct_pattern(call),
              .owners = context.nodes()->owners,
              .send = buffers.send,
              .recv = buffers.recv,
              .count = call.count,
              .piece = rounds.piece,
              .reduction = reduction_of(call, topology)};
    args.rail.flags |= ChunkNote::credit_in_bulk;
    context.launch(name(), args.pattern.reduces ? call.type : move_type(call.type), shape, args);
  }

 protected:
  Support supports_call(const Call& call, const Topology& topology) const override {
    if (topology.nodes == 1) return Support::no("the ranks are on one node");
    if (topology.rails * topology.nodes != topology.ranks)
      return Support::no("the nodes have different numbers of ranks");
    if (Rounds(call, topology).count > most_rounds)
      return Support::no("the message is too long for so many rounds");
    return {};
  }

 private:
  static constexpr std::size_t most_rounds = 64;

  /// How a call is cut.
  struct Rounds {
    /// Blocks from a rank to its leader, from one leader to another, and from a leader to a rank.
    std::size_t in, across, out;
    std::size_t piece;  // elements of a block in a round
    std::size_t count;

    Rounds(const Call& call, const Topology& topology) {
      const DirectPattern pattern = direct_pattern(call);
      const auto ranks = static_cast<unsigned>(topology.ranks),
                 of_node = static_cast<unsigned>(topology.node_ranks);
      in = pattern.block_per_target ? ranks : 1;
      out = pattern.block_per_source ? ranks : 1;
      across = (pattern.block_per_target && !pattern.root_receives ? of_node : 1) *
               (pattern.block_per_source && !pattern.root_sends ? of_node : 1);
      const std::size_t fit =
          std::min(node_channel_memory(topology).bytes / slots / std::max(in, out),
                   channel_bytes(topology) / slots / across) /
          size_of(call.type);
      // Pieces begin at whole cache lines, if the blocks do.
      piece = fit >= call.count ? std::max<std::size_t>(call.count, 1) : fit / 64 * 64;
      count = piece == 0 ? most_rounds + 1 : (call.count + piece - 1) / piece;
    }
    /// Bytes from one leader to another in a round.
    std::size_t message(const Call& call) const { return across * piece * size_of(call.type); }
  };
};

const FamilyRegistration<Leaders, direct_collectives> registration;

}  // namespace
}  // namespace plait::leaders
