// A rank's way to the network, and what that says of the network between nodes.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "transport/transport.hpp"

namespace plait {

/// The network device of a rank; ranks exchange it.
struct Uplink {
  std::size_t device = 0;             // ranks of a node with equal numbers share it
  double bandwidth = 0, latency = 0;  // as in transport::Properties, 0: unknown

  static Uplink of(const transport::Properties& properties);
};

/// What the user says of the network: PLAIT_NET_LATENCY_US and PLAIT_NET_BANDWIDTH.
struct WishedNetwork {
  std::optional<double> latency_us, gb_per_s;
};

/// The weakest values of all nodes; what no rank knows is as in `NetworkFacts`. A node has the
/// bandwidth of all its devices together. `nodes`: the uplinks of each node's ranks. `wished`
/// replaces what is found.
NetworkFacts network_of(const std::vector<std::vector<Uplink>>& nodes,
                        const WishedNetwork& wished = {});

}  // namespace plait
