#include "backends/cuda/nvml.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "backends/gpu/pci_address.hpp"

namespace plait::cuda {
namespace {

struct Links {
  bool known = false;
  int to_switch = 0;
  std::map<std::uint64_t, int> to_device;  // by PCI address
};

struct PciInfo {  // nvmlPciInfo_t
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem;
  char id[32];
};

Links ask(const char* pci_id) {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  using Device = void*;
  constexpr int success = 0;              // NVML_SUCCESS
  constexpr int a_gpu = 0, a_switch = 2;  // NVML_NVLINK_DEVICE_TYPE_GPU, _SWITCH
  constexpr unsigned most_links = 18;     // NVML_NVLINK_MAX_LINKS
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto shutdown = reinterpret_cast<int (*)()>(dlsym(library, "nvmlShutdown"));
  const auto find = reinterpret_cast<int (*)(const char*, Device*)>(
      dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  const auto link_state = reinterpret_cast<int (*)(Device, unsigned, unsigned*)>(
      dlsym(library, "nvmlDeviceGetNvLinkState"));
  const auto other_end = reinterpret_cast<int (*)(Device, unsigned, int*)>(
      dlsym(library, "nvmlDeviceGetNvLinkRemoteDeviceType"));
  const auto other_place = reinterpret_cast<int (*)(Device, unsigned, PciInfo*)>(
      dlsym(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2"));
  Links links;
  if (init != nullptr && shutdown != nullptr && find != nullptr && link_state != nullptr &&
      other_end != nullptr && other_place != nullptr && init() == success) {
    Device device = nullptr;
    links.known = find(pci_id, &device) == success;
    for (unsigned link = 0; links.known && link < most_links; ++link) {
      unsigned active = 0;
      int type = -1;
      PciInfo place{};
      if (link_state(device, link, &active) != success || active == 0 ||
          other_end(device, link, &type) != success)
        continue;
      if (type == a_switch) ++links.to_switch;
      if (type == a_gpu && other_place(device, link, &place) == success)
        ++links.to_device[gpu::pci_address(place.domain, place.bus, place.device, 0)];
    }
    shutdown();
  }
  dlclose(library);
  return links;
}

/// Asked once per process and device: the answer takes milliseconds, and every communicator opens a
/// device.
const Links& links_of(const std::string& pci_id) {
  static std::mutex mutex;
  static std::map<std::string, Links> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(pci_id);
  return found != known.end() ? found->second
                              : known.emplace(pci_id, ask(pci_id.c_str())).first->second;
}

}  // namespace

bool is_behind_nvswitch(const std::string& pci_id) { return links_of(pci_id).to_switch > 0; }

std::vector<int> links_between(const std::string& pci_id, std::span<const std::string> others) {
  const Links& links = links_of(pci_id);
  std::vector<int> counts;
  for (const std::string& other : others) {
    const auto direct = links.to_device.find(gpu::pci_address(other));
    counts.push_back(!links.known                      ? -1
                     : direct != links.to_device.end() ? links.to_switch + direct->second
                                                       : links.to_switch);
  }
  return counts;
}

}  // namespace plait::cuda
