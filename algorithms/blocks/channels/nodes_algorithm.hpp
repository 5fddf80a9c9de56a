// Base class for descriptors of algorithms in which the ranks of a node work together, and those of
// equal local number, a rail, exchange between nodes. One that serves the ranks of a single node
// takes each of them for a node.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"

namespace plait {

class NodesAlgorithm : public ChannelAlgorithm {
 public:
  using ChannelAlgorithm::ChannelAlgorithm;

  std::vector<LaunchShape> shapes(const Call&, const Topology& topology) const final {
    if (topology.backend == BackendKind::host) return of_workers(topology);
    if (topology.nodes == 1) return {{most_units(topology.units), topology.block_threads}};
    return {{.blocks = blocks_between_nodes, .threads = topology.block_threads}};
  }

 protected:
  Support supports_call(const Call&, const Topology& topology) const override {
    if (topology.nodes == 1) return Support::no("the ranks are on one node");
    return {};
  }
  static int nodes_of(const Topology& topology) {
    return topology.nodes == 1 ? topology.ranks : topology.nodes;
  }
  static int rails_of(const Topology& topology) { return topology.nodes == 1 ? 1 : topology.rails; }
  static NodeSetting setting(const LaunchContext& context) {
    if (context.nodes() != nullptr) return *context.nodes();
    NodeSetting alone;
    alone.node = context.rank();
    alone.ranks_here = context.ranks_in_order() + context.rank();
    alone.owners = context.ranks_in_order();
    return alone;
  }
  /// The bytes that a rail's share of the network carries in the time that a proxy needs for one
  /// message. Smaller pieces would keep the proxies busier than the network.
  static std::size_t piece_grain(const Topology& topology, LaunchShape shape) {
    const NetworkFacts& network = topology.network;
    constexpr double most = 1 << 20;
    const double sent = network.message_us * network.bandwidth / topology.rails;
    return std::max(stripe_grain(shape.threads), static_cast<std::size_t>(std::min(sent, most)));
  }

  /// Among the ranks of equal local number. Each has the number of its node. For chunks of up to
  /// `chunk_bytes` bytes.
  static GroupChannels rail_channels(const LaunchContext& context, std::uint32_t slots,
                                     std::size_t chunk_bytes) {
    const NodeSetting here = setting(context);
    const Topology& topology = context.topology();
    const int rails = rails_of(topology);
    GroupChannels rail{with_chunks(channels(context, slots), chunk_bytes, context), {}};
    rail.rank = here.node;
    rail.ranks = nodes_of(topology);
    // A rank without a rail uses none of these channels.
    const int own = std::min(here.local_rank, rails - 1);
    rail.members = {.numbers = here.owners + own,
                    .stride = static_cast<std::uint32_t>(rails),
                    .in_memory = topology.ranks};
    return rail;
  }
  /// Among the ranks of this node.
  static GroupChannels node_channels(const LaunchContext& context, std::uint32_t slots) {
    const NodeSetting here = setting(context);
    const ChannelMemory memory = node_channel_memory(context.topology());
    GroupChannels node{channels(context, slots, memory, here.channels), {}};
    node.notes = nullptr;
    node.rank = here.local_rank;
    node.ranks = here.local_ranks;
    node.members = {.numbers = here.ranks_here};
    return node;
  }
};

}  // namespace plait
