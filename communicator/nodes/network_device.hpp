// The network device of each rank, and what they say of the network between nodes.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "transport/transport.hpp"

namespace plait {

/// The network device of a rank; ranks exchange it.
struct NetworkDevice {
  std::size_t id = 0;                 // ranks of a node with equal ids share the device
  double bandwidth = 0, latency = 0;  // as in transport::Properties, 0: unknown

  static NetworkDevice of(const transport::Properties& properties);
};

/// What the user says of the network: PLAIT_NET_LATENCY_US and PLAIT_NET_BANDWIDTH.
struct WishedNetwork {
  std::optional<double> latency_us, gb_per_s;
};

/// The weakest values of all nodes; what no rank knows is as in `NetworkFacts`. A node has the
/// bandwidth of all its devices together. `nodes`: the devices of each node's ranks. `wished`
/// replaces what is found.
NetworkFacts network_of(const std::vector<std::vector<NetworkDevice>>& nodes,
                        const WishedNetwork& wished = {});

}  // namespace plait
