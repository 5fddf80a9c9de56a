#include "backends/hip/rocm_smi.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <utility>

#include "backends/gpu/pci_address.hpp"

namespace plait::hip {
namespace {

/// By the PCI addresses of both ends, for all GPUs that the library sees.
using Links = std::map<std::pair<std::uint64_t, std::uint64_t>, int>;

void* open_library() {
  for (const char* name : {"librocm_smi64.so", "librocm_smi64.so.7", "librocm_smi64.so.1",
                           "/opt/rocm/lib/librocm_smi64.so"})
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  return nullptr;
}

Links ask() {
  void* library = open_library();
  if (library == nullptr) return {};
  constexpr int success = 0, xgmi = 2;  // RSMI_STATUS_SUCCESS, RSMI_IOLINK_TYPE_XGMI
  using Number = std::uint64_t;
  const auto init = reinterpret_cast<int (*)(Number)>(dlsym(library, "rsmi_init"));
  const auto shut_down = reinterpret_cast<int (*)()>(dlsym(library, "rsmi_shut_down"));
  const auto count =
      reinterpret_cast<int (*)(std::uint32_t*)>(dlsym(library, "rsmi_num_monitor_devices"));
  const auto place =
      reinterpret_cast<int (*)(std::uint32_t, Number*)>(dlsym(library, "rsmi_dev_pci_id_get"));
  const auto link_type = reinterpret_cast<int (*)(std::uint32_t, std::uint32_t, Number*, int*)>(
      dlsym(library, "rsmi_topo_get_link_type"));
  // Of one link, and of all between two devices. Both are 0 where the way leads through others.
  const auto bandwidths = reinterpret_cast<int (*)(std::uint32_t, std::uint32_t, Number*, Number*)>(
      dlsym(library, "rsmi_minmax_bandwidth_get"));
  Links links;
  if (init != nullptr && shut_down != nullptr && count != nullptr && place != nullptr &&
      link_type != nullptr && bandwidths != nullptr && init(0) == success) {
    std::uint32_t devices = 0;
    if (count(&devices) != success) devices = 0;
    const auto address = [&](std::uint32_t device) {
      Number id = ~Number{0};
      // Bits 16 to 31 have the number of a partition, which the runtime's address lacks.
      return place(device, &id) == success ? id & ~Number{0xffff0000} : ~Number{0};
    };
    for (std::uint32_t a = 0; a < devices; ++a)
      for (std::uint32_t b = 0; b < devices; ++b) {
        Number hops = 0, one = 0, all = 0;
        int type = 0;
        int& known = links[{address(a), address(b)}];
        if (a != b && link_type(a, b, &hops, &type) == success && type == xgmi &&
            bandwidths(a, b, &one, &all) == success && one != 0)
          known = static_cast<int>(all / one);
      }
    shut_down();
  }
  dlclose(library);
  return links;
}

}  // namespace

std::vector<int> links_between(const std::string& pci_id, std::span<const std::string> others) {
  static const Links links = ask();  // once per process: the library starts slowly
  std::vector<int> counts;
  for (const std::string& other : others) {
    const auto found = links.find({gpu::pci_address(pci_id), gpu::pci_address(other)});
    counts.push_back(found == links.end() ? -1 : found->second);
  }
  return counts;
}

}  // namespace plait::hip
