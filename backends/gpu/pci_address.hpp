// A device's place on the PCI bus as one number, as ROCm SMI has it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

namespace plait::gpu {

constexpr std::uint64_t pci_address(unsigned domain, unsigned bus, unsigned device,
                                    unsigned function) {
  return std::uint64_t{domain} << 32 | bus << 8 | device << 3 | function;
}

/// Of "0000:3B:00.0". Another text is no device: ~0.
inline std::uint64_t pci_address(const std::string& id) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  if (std::sscanf(id.c_str(), "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4) return ~0ull;
  return pci_address(domain, bus, device, function);
}

}  // namespace plait::gpu
