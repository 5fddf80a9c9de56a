// Which of a node's network devices a rank takes: one that is near its GPU on the PCI bus.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/plugin/net_library.hpp"

namespace plait::transport {

/// Where GPUs are, as paths like "/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0", with the
/// bridges above them.
struct GpuPlaces {
  std::string own;               // empty: unknown
  std::vector<std::string> all;  // those of the node that are of the same kind, this one included

  /// `id`: a PCI address, "0000:3B:00.0". `bus`: a folder of the system's with a link for each.
  static GpuPlaces find(std::string id, const std::filesystem::path& bus = "/sys/bus/pci/devices");
};

/// The number of the device whose path shares the most with the GPU's, and of such devices the
/// fastest. GPUs that have several in common take them in turn, in the order of their paths. That
/// order does not depend on the communicator, so ranks of different ones share devices out, too.
/// None: nothing is known of the places.
std::optional<int> nearest_device(std::span<const NetDevice> devices, const GpuPlaces& gpus);

}  // namespace plait::transport
