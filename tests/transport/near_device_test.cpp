// Which network device a rank takes: made-up machines, and a made-up folder of the system's.
#include "transport/plugin/near_device.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/data.hpp"

namespace plait::transport {
namespace {

namespace fs = std::filesystem;
using test::hash;

int choice(const std::vector<NetDevice>& devices, const std::string& own,
           const std::vector<std::string>& gpus) {
  return nearest_device(devices, {.own = own, .all = gpus}).value_or(-1);
}

/// On random machines no device is nearer, and of equals none is faster, or taken twice more often.
TEST(NearDevice, IsTheNearestAndSharedOut) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    std::uint64_t drawn = 0;
    const auto draw = [&](std::uint64_t most) { return hash(seed, 1, ++drawn) % most; };
    const auto place = [&](int device) {
      std::string path = "/sys/devices";
      for (auto depth = draw(4); depth > 0; --depth) path += fmt::format("/bridge{}", draw(2));
      return fmt::format("{}/{}", path, device);
    };
    std::vector<std::string> gpus;
    std::vector<NetDevice> devices;
    for (int i = 0; i < 8; ++i) gpus.push_back(place(i));
    for (auto i = draw(6) + 1; i > 0; --i)
      devices.push_back({.pci_path = place(0x80 + static_cast<int>(i)), .speed = 100. * draw(2)});
    std::sort(gpus.begin(), gpus.end());
    std::map<std::vector<std::size_t>, std::map<std::size_t, int>> uses;  // of equally near ones
    for (const std::string& gpu : gpus) {
      const auto merit = [&](const NetDevice& device) {
        const auto ends =
            std::mismatch(gpu.begin(), gpu.end(), device.pci_path.begin(), device.pci_path.end());
        return std::pair(std::count(gpu.begin(), ends.first, '/'), device.speed);
      };
      const auto device = static_cast<std::size_t>(choice(devices, gpu, gpus));
      std::vector<std::size_t> equals;
      for (std::size_t i = 0; i < devices.size(); ++i) {
        EXPECT_LE(merit(devices[i]), merit(devices.at(device))) << seed;
        if (merit(devices[i]) == merit(devices[device])) equals.push_back(i);
      }
      for (const std::size_t one : equals) uses[equals].try_emplace(one);
      ++uses[equals][device];
    }
    for (const auto& [equals, counts] : uses) {
      const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
      const auto [least, most] = std::minmax_element(counts.begin(), counts.end(), less);
      EXPECT_LE(most->second, least->second + 1) << seed;
    }
  }
}

TEST(NearDevice, IsUnknownWithoutPlaces) {
  const std::string gpu = "/sys/devices/pci0000:00/0000:00:01.0";
  EXPECT_EQ(choice({{.pci_path = ""}, {.pci_path = ""}}, gpu, {gpu}), -1);
  EXPECT_EQ(choice({{.pci_path = gpu}}, "", {}), -1);
  EXPECT_EQ(choice({}, gpu, {gpu}), -1);
  EXPECT_EQ(choice({{.pci_path = ""}, {.pci_path = gpu}}, gpu, {gpu}), 1);
}

TEST(NearDevice, GpusOfOneKindAreFoundInTheSystem) {
  const fs::path root = fs::temp_directory_path() / fmt::format("plait-pci-{}", ::getpid());
  const auto add = [&](const std::string& bridge, const std::string& id, const char* kind) {
    fs::create_directories(root / bridge / id);
    std::ofstream(root / bridge / id / "modalias") << kind << '\n';
    fs::create_directories(root / "bus");
    fs::create_directory_symlink(root / bridge / id, root / "bus" / id);
    return fs::canonical(root / bridge / id).string();
  };
  const std::string one = add("pci0000:9a", "0000:9b:00.0", "pci:a"),
                    other = add("pci0000:1a", "0000:ab:00.0", "pci:a");
  add("pci0000:1a", "0000:1c:00.0", "pci:b");
  const GpuPlaces places = GpuPlaces::find("0000:9B:00.0", root / "bus");
  EXPECT_EQ(places.own, one);
  EXPECT_EQ(places.all, (std::vector{other, one}));
  for (const char* none : {"host", "0000:77:00.0", ""})
    EXPECT_EQ(GpuPlaces::find(none, root / "bus").own, "") << none;
  EXPECT_EQ(GpuPlaces::find("0000:9b:00.0", root / "none").own, "");
  fs::remove_all(root);
}

}  // namespace
}  // namespace plait::transport
