// NVLinks, by the driver's management library, because the runtime knows only pairs of GPUs that
// this process sees. Without that library there are none.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace plait::cuda {

/// Whether a GPU reaches its peers through an NVLink switch, which keeps a 128-byte write whole;
/// PCIe does not. Where GPUs are linked directly, some pairs may communicate over PCIe, so such
/// GPUs count as having no switch.
bool is_behind_nvswitch(const std::string& pci_id);

/// For `Backend::links_to`.
std::vector<int> links_between(const std::string& pci_id, std::span<const std::string> others);

}  // namespace plait::cuda
