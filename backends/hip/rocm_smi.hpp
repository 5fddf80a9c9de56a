// XGMI links, by ROCm SMI.
#pragma once
#include <span>
#include <string>
#include <vector>

namespace plait::hip {

/// For `Backend::links_to`. Unknown without the library.
std::vector<int> links_between(const std::string& pci_id, std::span<const std::string> others);

}  // namespace plait::hip
