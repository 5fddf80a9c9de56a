// The time that the network between nodes adds to a call, for estimates. Ranks of a node are taken
// to be in a row.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>

#include "algorithms/blocks/channels/channel_algorithm.hpp"

namespace plait {

/// A call's use of the network between nodes. All zero on one node.
struct NetworkUse {
  double hops = 0;      // messages one after the other
  double messages = 0;  // that one rank sends
  double bytes = 0;     // out of the busiest node, or into it
  /// Latencies that pass while a channel waits for credits, because it holds only so many chunks,
  /// beyond those of the hops.
  double waits = 0;
};

/// The time of a call: `latency` and `moving` are those of the same call on one node, of signals
/// and of bytes. Ranks store, proxies send and the network carries chunks at the same time, so the
/// slowest of them counts. A quarter of the rank's own time shows besides, or of the network's if
/// that is less, because the first and the last chunks have nothing to overlap with (a guess).
inline double time_between_nodes(double latency, double moving, const NetworkUse& use,
                                 const Topology& topology) {
  if (topology.nodes == 1) return latency + moving;
  const NetworkFacts& network = topology.network;
  const double carrying = std::max({use.messages * network.message_us,
                                    use.bytes / network.bandwidth, use.waits * network.latency_us});
  return latency + use.hops * network.latency_us + std::max(moving, carrying) +
         std::min(moving, carrying) / 4;
}

/// Messages in which a proxy sends `bytes` in chunks: those of up to 4 KB travel together, as many
/// as are under way, `at_once` bytes, or fit 16 KB (transport/frame.hpp).
inline double messages_of(double bytes, double at_once, double chunk) {
  const double message = chunk <= most_inline_bytes ? std::min(at_once, 16384.0) : chunk;
  return message > 0 ? std::max(bytes / message, 1.0) : 1;
}

/// `bytes` to each of `peers` ranks of other nodes, all at once, in chunks of a slot.
inline void add_flows(NetworkUse& use, double bytes, double peers, unsigned slots, unsigned blocks,
                      const Topology& topology) {
  const double channel = channel_memory(topology).bytes;
  use.messages += peers * messages_of(bytes, channel, channel / slots);
  use.waits += std::max(2 * bytes / (blocks * channel) - 1, 0.0);
}

/// Ranks on other nodes.
inline int remote_ranks(const Topology& topology) { return topology.ranks - topology.node_ranks; }

/// How many of `hops` hops over 1, 2, 4, ... ranks leave a node: those as long as a node or longer,
/// and one of the others, because all of those together are shorter than a node.
inline int hops_between_nodes(int hops, const Topology& topology) {
  if (topology.nodes == 1) return 0;
  const int shorter = std::bit_width(static_cast<unsigned>(topology.node_ranks - 1));
  return std::min(hops, std::max(hops - shorter, 0) + (shorter > 0 ? 1 : 0));
}

}  // namespace plait
