// What estimates say of several nodes: the network's part, and the order of the algorithms.
#include "algorithms/blocks/channels/network_cost.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/nodes/network_device.hpp"

namespace plait {
namespace {

Topology topology_of(int nodes, int ranks_per_node) {
  Topology topology;
  topology.ranks = nodes * ranks_per_node;
  topology.nodes = nodes;
  topology.rails = topology.node_ranks = ranks_per_node;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.launch_us = 0.1;
  topology.hop_us = 0.2;
  topology.signal_us = 0.26;
  topology.link_bandwidth = 16e3;
  topology.push_bandwidth = 4.5e3;
  topology.packet_bandwidth = 1.2e3;
  topology.network = {.latency_us = 30, .message_us = 5, .bandwidth = 50};
  return topology;
}

Call call_of(Collective collective, std::size_t bytes, const Topology& topology) {
  Call call{.collective = collective, .parts = parts_of(collective, topology.ranks)};
  call.count = count_within(call, bytes);
  return call;
}

double estimate(std::string_view name, Collective collective, std::size_t bytes,
                const Topology& topology) {
  const Algorithm* algorithm = Registry::instance().find(name, collective);
  const Call call = call_of(collective, bytes, topology);
  const Support support = can_serve(*algorithm, call, topology);
  EXPECT_TRUE(support) << name << ": " << support.reason();
  return support ? algorithm->estimate(call, topology) : 0;
}
/// The first takes less time than each of the others.
void expect_fastest(std::string_view name, std::initializer_list<std::string_view> others,
                    Collective collective, std::size_t bytes, const Topology& topology) {
  for (const std::string_view other : others)
    EXPECT_LT(estimate(name, collective, bytes, topology),
              estimate(other, collective, bytes, topology))
        << name << ", " << other << ", " << topology.nodes << " x " << topology.rails << ", "
        << bytes << " bytes";
}
constexpr std::size_t large = std::size_t{64} << 20;

TEST(NetworkCost, BytesThroughTheBusiestNode) {
  const Topology topology = topology_of(2, 4);
  const double once = static_cast<double>(large) / topology.network.bandwidth;
  const auto expect_passes = [&](Collective collective, std::string_view name, double passes) {
    EXPECT_NEAR(estimate(name, collective, large, topology) / once, passes, 0.05 * passes) << name;
  };
  expect_passes(Collective::all_reduce, "rails", 1);           // 2 (N - 1) / N
  expect_passes(Collective::all_reduce, "rails_ring", 1);      // 2 (N - 1) / N
  expect_passes(Collective::all_reduce, "rails_tree", 1);      // half for each of two trees
  expect_passes(Collective::all_reduce, "rails_doubling", 1);  // log2(N)
  expect_passes(Collective::all_reduce, "leaders_doubling", 1);
  expect_passes(Collective::all_reduce, "halving_doubling", 1);  // the shortest exchanges
  expect_passes(Collective::all_reduce, "ring", 2 * 7.0 / 8);    // 2 (n - 1) / n
  expect_passes(Collective::all_reduce, "stream", 4);            // as many as rails, per rank
  expect_passes(Collective::all_gather, "rails", 0.5);
  expect_passes(Collective::all_gather, "direct_push", 2);
  expect_passes(Collective::broadcast, "direct_push", 4);  // to each rank of the other node
  expect_passes(Collective::broadcast, "chain", 1);
  expect_passes(Collective::send_recv, "pairwise_push", 1);
}

TEST(NetworkCost, LargeMessagesTakeRails) {
  for (const auto& [nodes, ranks] : {std::pair{2, 2}, {2, 4}, {4, 2}, {3, 3}, {8, 8}}) {
    const Topology topology = topology_of(nodes, ranks);
    expect_fastest("rails", {"ring", "stream", "tree"}, Collective::all_reduce, large, topology);
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter})
      expect_fastest("rails", {"direct_push"}, collective, large, topology);
    expect_fastest("chain", {"direct_push"}, Collective::broadcast, large, topology);
  }
}

TEST(NetworkCost, SmallMessagesTakeLeaders) {
  for (const auto& [nodes, ranks] : {std::pair{2, 2}, {2, 4}, {4, 2}})
    expect_fastest("leaders", {"ring", "stream", "tree"}, Collective::all_reduce, 8,
                   topology_of(nodes, ranks));
}

/// A rank sends to each other node by itself, so trees win in the end.
TEST(NetworkCost, ManyNodesTakeTreesForSmallMessages) {
  Topology topology = topology_of(90, 1);
  topology.scratch_limit = std::size_t{1} << 30;
  expect_fastest("tree", {"leaders"}, Collective::all_reduce, 8, topology);
  expect_fastest("halving_doubling", {"ring"}, Collective::all_reduce, 8, topology);
}

/// Trees over nodes have fewer hops than trees over ranks, and than rings.
TEST(NetworkCost, TreesAlongRails) {
  const Topology topology = topology_of(16, 4);
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{64} << 10, large})
    expect_fastest("rails_tree", {"tree"}, Collective::all_reduce, bytes, topology);
  expect_fastest("rails_tree", {"rails_ring"}, Collective::all_reduce, 8, topology);
  expect_fastest("rails_ring", {"rails_tree"}, Collective::all_reduce, large, topology);
}

/// A hop for each power of two, and two more for the nodes beyond the largest one.
TEST(NetworkCost, DoublingTakesFewHops) {
  const auto latency = [](int nodes, const char* name) {
    Topology topology = topology_of(nodes, 2);
    topology.scratch_limit = std::size_t{1} << 30;
    topology.launch_us = topology.signal_us = 0;
    topology.network = {.latency_us = 100, .message_us = 0, .bandwidth = 1e12};
    return estimate(name, Collective::all_reduce, 8, topology);
  };
  for (const char* const name : {"rails_doubling", "leaders_doubling"}) {
    EXPECT_NEAR(latency(2, name), 100, 1);
    EXPECT_NEAR(latency(3, name), 300, 1);
    EXPECT_NEAR(latency(4, name), 200, 1);
    EXPECT_NEAR(latency(5, name), 400, 1);
    EXPECT_NEAR(latency(8, name), 300, 1);
    EXPECT_NEAR(latency(48, name), 700, 1);
  }
}

/// With few nodes `leaders` has a hop less. With many a rank sends too many messages.
TEST(NetworkCost, ManyNodesTakeDoublingForSmallMessages) {
  for (const auto& [nodes, ranks] : {std::pair{32, 8}, {48, 8}, {64, 4}}) {
    Topology topology = topology_of(nodes, ranks);
    topology.scratch_limit = std::size_t{4} << 30;
    expect_fastest("leaders_doubling", {"leaders", "rails", "ring", "tree", "stream"},
                   Collective::all_reduce, 8, topology);
  }
  expect_fastest("leaders", {"leaders_doubling"}, Collective::all_reduce, 8, topology_of(4, 2));
}

/// A slot of `rails` has a chunk of each node, so a fast network waits for its proxies. With a
/// power of two, `halving_doubling` has fewer hops.
TEST(NetworkCost, ManyNodesOfAFastNetworkTakeRingsForLargeMessages) {
  Topology topology = topology_of(48, 8);
  topology.scratch_limit = std::size_t{4} << 30;
  topology.push_bandwidth = 361e3;
  topology.network = {.latency_us = 15, .message_us = 2, .bandwidth = 400e3};
  expect_fastest("rails_ring", {"rails", "ring", "halving_doubling", "tree", "stream"},
                 Collective::all_reduce, 16 * large, topology);
  expect_fastest("rails", {"rails_ring"}, Collective::all_reduce, 64 << 10, topology);
}

/// Each algorithm that spans nodes depends on the network if there are several, and on none if
/// there is one.
TEST(NetworkCost, CountsBetweenNodesOnly) {
  for (const auto& algorithm : Registry::instance().all()) {
    if (!algorithm->spans_nodes() || algorithm->is_lossy()) continue;
    const Collective collective = algorithm->collective();
    const auto with = [&](int nodes, const NetworkFacts& network) {
      Topology topology = topology_of(nodes, 8 / nodes);
      topology.network = network;
      return algorithm->estimate(call_of(collective, large, topology), topology);
    };
    const NetworkFacts usual{.latency_us = 30, .message_us = 5, .bandwidth = 1250},
        slow{.latency_us = 3000, .message_us = 5, .bandwidth = 12.5};
    const auto text = std::string(algorithm->name()) + ", " + std::string(name_of(collective));
    EXPECT_LT(with(2, usual), with(2, slow)) << text;
    if (algorithm->supports(call_of(collective, large, topology_of(1, 8)), topology_of(1, 8))) {
      EXPECT_EQ(with(1, usual), with(1, slow)) << text;
    }
  }
}

TEST(NetworkCost, HopsBetweenNodes) {
  EXPECT_EQ(hops_between_nodes(3, topology_of(1, 8)), 0);
  EXPECT_EQ(hops_between_nodes(3, topology_of(8, 1)), 3);
  EXPECT_EQ(hops_between_nodes(3, topology_of(4, 2)), 3);  // from 1 to 2, 4 and 8
  EXPECT_EQ(hops_between_nodes(4, topology_of(4, 4)), 3);
  EXPECT_EQ(hops_between_nodes(1, topology_of(2, 4)), 1);
}

/// The node with the least bandwidth counts, and the longest latency.
TEST(NetworkDevices, TheWeakestNodeCounts) {
  const NetworkDevice slow{.id = 1, .bandwidth = 100, .latency = 2}, fast{2, 300, 1},
      unknown{3, 0, 0};
  const NetworkFacts otherwise;
  EXPECT_EQ(network_of({{fast}, {slow}}).bandwidth, 100);
  EXPECT_EQ(network_of({{fast}, {slow, slow}}).bandwidth, 100);  // one device
  EXPECT_EQ(network_of({{fast}, {slow, {4, 100, 2}}}).bandwidth, 200);
  EXPECT_EQ(network_of({{fast}, {unknown}}).bandwidth, 300);
  EXPECT_EQ(network_of({{unknown}, {unknown}}), otherwise);
  EXPECT_EQ(network_of({{fast}, {slow}}).latency_us, otherwise.latency_us + 2);
  const WishedNetwork wished{.latency_us = 7, .gb_per_s = 0.05};
  EXPECT_EQ(network_of({{fast}, {slow}}, wished).latency_us, 7);
  EXPECT_EQ(network_of({{fast}, {slow}}, wished).bandwidth, 50);
}

}  // namespace
}  // namespace plait
