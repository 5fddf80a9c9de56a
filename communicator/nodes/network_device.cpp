#include "communicator/nodes/network_device.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>

namespace plait {

NetworkDevice NetworkDevice::of(const transport::Properties& properties) {
  return {.id = std::hash<std::string>{}(properties.name),
          .bandwidth = properties.bandwidth,
          .latency = properties.latency};
}

NetworkFacts network_of(const std::vector<std::vector<NetworkDevice>>& nodes,
                        const WishedNetwork& wished) {
  double bandwidth = 0, latency = 0;
  for (const std::vector<NetworkDevice>& of_ranks : nodes) {
    std::map<std::size_t, double> bandwidths;
    for (const NetworkDevice& device : of_ranks) {
      bandwidths[device.id] = device.bandwidth;
      latency = std::max(latency, device.latency);
    }
    double all = 0;
    for (const auto& [id, of_device] : bandwidths) all += of_device;
    if (all > 0) bandwidth = bandwidth > 0 ? std::min(bandwidth, all) : all;
  }
  NetworkFacts network;
  // The default has the time that the proxies on both sides take; the wire adds its own.
  network.latency_us = wished.latency_us.value_or(network.latency_us + latency);
  if (wished.gb_per_s) network.bandwidth = *wished.gb_per_s * 1e3;
  else if (bandwidth > 0) network.bandwidth = bandwidth;
  return network;
}

}  // namespace plait
