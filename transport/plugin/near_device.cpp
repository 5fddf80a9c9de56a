#include "transport/plugin/near_device.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <utility>

namespace plait::transport {
namespace {

namespace fs = std::filesystem;

std::string kind_of(const fs::path& folder) {
  std::string ids;
  std::ifstream(folder / "modalias") >> ids;
  return ids;
}

/// How much of their ways from the root two paths share. An empty one shares nothing.
std::ptrdiff_t shared_part(const fs::path& a, const fs::path& b) {
  return std::distance(a.begin(), std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first);
}

std::vector<int> nearest_devices(std::span<const NetDevice> devices, const std::string& gpu) {
  std::vector<int> nearest;
  std::pair<std::ptrdiff_t, double> best{1, 0};
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const std::pair one{shared_part(gpu, devices[i].pci_path), devices[i].speed};
    if (one < best) continue;
    if (one > best) nearest.clear();
    best = one;
    nearest.push_back(static_cast<int>(i));
  }
  return nearest;
}

}  // namespace

GpuPlaces GpuPlaces::find(std::string id, const fs::path& bus) {
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  GpuPlaces places;
  std::error_code failed;
  const std::string kind = kind_of(bus / id);
  for (const auto& entry : fs::directory_iterator(bus, failed)) {
    if (kind.empty() || kind_of(entry.path()) != kind) continue;
    places.all.push_back(fs::canonical(entry.path(), failed));
    if (entry.path().filename() == id) places.own = places.all.back();
  }
  std::sort(places.all.begin(), places.all.end());
  return places;
}

std::optional<int> nearest_device(std::span<const NetDevice> devices, const GpuPlaces& gpus) {
  const std::vector<int> nearest = nearest_devices(devices, gpus.own);
  if (nearest.empty()) return std::nullopt;
  std::size_t turn = 0;
  for (const std::string& gpu : gpus.all) {
    if (gpu == gpus.own) break;
    if (nearest_devices(devices, gpu) == nearest) ++turn;
  }
  return nearest[turn % nearest.size()];
}

}  // namespace plait::transport
