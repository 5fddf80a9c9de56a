// Base class for `rails` and its variants.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <string_view>

#include "algorithms/blocks/channels/network_cost.hpp"
#include "algorithms/blocks/channels/nodes_algorithm.hpp"
#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/nodes/rails/kernel.hpp"

namespace plait::rails {

/// As many rails as each node has ranks.
class RailsAlgorithm : public NodesAlgorithm {
 public:
  using NodesAlgorithm::NodesAlgorithm;
  StaticName name() const override { return "rails"; }
  StaticName family() const override { return "rails"; }
  std::string_view summary() const override {
    return "ranks of a node reduce together, ranks of equal local number exchange between nodes, "
           "and ranks of a node gather: several nodes";
  }

  double estimate(const Call& call, const Topology& topology) const override {
    const double passes = call.collective == Collective::all_reduce ? 2 : 1,
                 moved = passes * (topology.ranks - 1) / topology.ranks *
                         static_cast<double>(call.bytes());
    return time_between_nodes(topology.launch_us + 4 * topology.signal_us,
                              moved / topology.push_bandwidth, network_use(call, topology),
                              topology);
  }

  std::string stages(const Call& call, LaunchShape shape, const Topology& topology) const final;

  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const override {
    context.launch(family(),
                   call.collective == Collective::all_gather ? move_type(call.type) : call.type,
                   shape, arguments(call, buffers, shape, context));
  }

 protected:
  Args arguments(const Call& call, const Buffers& buffers, LaunchShape shape,
                 const LaunchContext& context) const {
    const NodeSetting here = setting(context);
    const Topology& topology = context.topology();
    const bool is_all_reduce = call.collective == Collective::all_reduce;
    const Plan plan = plan_of(call, topology, shape);
    const std::size_t chunk = std::size_t{plan.chunks.bytes} *
                              (plan.work.everywhere ? static_cast<unsigned>(plan.nodes) : 1);
    GroupChannels rail = rail_channels(context, Plan::slots, chunk);
    // Calls use the ways in turn, and each has a chunk from every node.
    if (plan.takes_turns() && plan.chunks.count(plan.stripes.at(0)) <= Plan::slots)
      rail.flags |= ChunkNote::credit_may_wait;
    const GroupChannels node = node_channels(context, Plan::slots);
    return {.node = node,
            .rail = rail,
            .send = buffers.send,
            .recv = buffers.recv,
            .owners = is_all_reduce ? nullptr : here.owners,
            .plan = plan,
            .reduction = reduction_of(call, topology)};
  }

  Support supports_call(const Call& call, const Topology& topology) const override {
    if (const Support several = NodesAlgorithm::supports_call(call, topology); !several)
      return several;
    if (call.collective != Collective::all_reduce &&
        topology.rails * topology.nodes != topology.ranks)
      return Support::no("the nodes have different numbers of ranks");
    return fits(topology, Plan::pack);
  }
  /// Slots on the node have a chunk of each node, and so have those along the rail if all nodes
  /// reduce everywhere.
  static Support fits(const Topology& topology, std::size_t least_chunk, bool everywhere = true) {
    const auto n = static_cast<unsigned>(nodes_of(topology));
    if (rail_slot(topology) / (everywhere ? n : 1) < least_chunk ||
        node_slot(topology) / n < least_chunk)
      return Support::no("the scratch memory is too small for so many nodes");
    return {};
  }
  virtual int rails(const Topology& topology) const { return rails_of(topology); }
  virtual Plan::Work work(const Call& call, const Topology& topology) const {
    return {
        .reduces = call.collective != Collective::all_gather,
        .gathers = call.collective != Collective::reduce_scatter,
        .everywhere = call.collective == Collective::all_reduce && is_everywhere(call, topology),
        .by_all_ranks = false};
  }

  /// In each pass a rank sends to its rail's rank on every other node: one block, or all blocks of
  /// its rail, or of the message.
  NetworkUse network_use(const Call& call, const Topology& topology) const {
    const LaunchShape shape = fitted(shapes(call, topology).front(), call, topology);
    const Plan plan = plan_of(call, topology, shape);
    const Plan::Work& work = plan.work;
    const double nodes = topology.nodes, bytes = static_cast<double>(call.bytes()),
                 passes = work.reduces && work.gathers && !work.everywhere ? 2 : 1,
                 copies = work.by_all_ranks ? topology.rails : 1,
                 blocks = work.everywhere ? nodes : 1,
                 to_peer = blocks * bytes / (plan.rails * nodes),
                 chunk = blocks * plan.chunks.bytes, chunks = plan.chunks.count(plan.stripes.at(0)),
                 under_way = std::min<double>(Plan::rail_lag, chunks);
    return {.hops = passes,
            .messages = passes * (nodes - 1) * messages_of(to_peer, chunk * under_way, chunk),
            .bytes = work.everywhere ? copies * (nodes - 1) * bytes
                                     : passes * (nodes - 1) / nodes * bytes,
            .waits = std::max(chunks / Plan::rail_lag - 1, 0.0)};
  }

 private:
  Plan plan_of(const Call& call, const Topology& topology, LaunchShape shape) const {
    return Plan::of(call.collective == Collective::all_reduce ? call.bytes() : call.block_bytes(),
                    rails(topology), nodes_of(topology), work(call, topology), shape.blocks,
                    stripe_grain(shape.threads), node_slot(topology), rail_slot(topology));
  }
  static std::uint32_t rail_slot(const Topology& topology) {
    return channel_bytes(topology) / Plan::slots;
  }
  /// A rank that counts as a node sends nothing on it, so those slots set no limit.
  static std::uint32_t node_slot(const Topology& topology) {
    return topology.nodes == 1 ? rail_slot(topology) * static_cast<unsigned>(topology.ranks)
                               : node_channel_memory(topology).bytes / Plan::slots;
  }
  /// With two nodes each byte crosses the network once in either way. A small message is sooner
  /// there in one hop, even if more bytes cross.
  static bool is_everywhere(const Call& call, const Topology& topology) {
    constexpr std::size_t small = std::size_t{16} << 10;
    return nodes_of(topology) == 2 || call.bytes() <= small;
  }
};

}  // namespace plait::rails
