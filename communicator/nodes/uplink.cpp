#include "communicator/nodes/uplink.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

namespace plait {

Uplink Uplink::of(const transport::Properties& properties) {
  return {.device = std::hash<std::string>{}(properties.name),
          .bandwidth = properties.bandwidth,
          .latency = properties.latency};
}

NetworkFacts network_of(const std::vector<std::vector<Uplink>>& nodes,
                        const WishedNetwork& wished) {
  double bandwidth = 0, latency = 0;
  for (const std::vector<Uplink>& uplinks : nodes) {
    std::map<std::size_t, double> devices;
    for (const Uplink& uplink : uplinks) {
      devices[uplink.device] = uplink.bandwidth;
      latency = std::max(latency, uplink.latency);
    }
    double all = 0;
    for (const auto& [device, of_device] : devices) all += of_device;
    if (all > 0) bandwidth = bandwidth > 0 ? std::min(bandwidth, all) : all;
  }
  NetworkFacts network;
  // Besides the time on the wire, a proxy on either side takes its part.
  network.latency_us = wished.latency_us.value_or(network.latency_us + latency);
  if (wished.gb_per_s) network.bandwidth = *wished.gb_per_s * 1e3;
  else if (bandwidth > 0) network.bandwidth = bandwidth;
  return network;
}

}  // namespace plait
