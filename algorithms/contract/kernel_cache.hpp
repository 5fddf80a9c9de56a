// Kernels by the names of their families.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstddef>
#include <cstdint>

#include "algorithms/contract/static_name.hpp"
#include "backends/backend.hpp"
#include "backends/device/kernel_table.hpp"
#include "plait/types.hpp"

namespace plait {

/// The kernel of a family that a launch takes: the one for a single call, or the one for many
/// (`batch_family`).
enum class KernelUse : std::uint8_t { single, batch };

/// The kernels that a communicator launched last, so that a launch searches neither the table of
/// all kernels nor a text.
class KernelCache {
 public:
  /// Null: the target has no such kernel.
  KernelHandle find(const Backend& backend, StaticName family, KernelUse use, DataType type) {
    const auto number =
        (reinterpret_cast<std::uintptr_t>(family.data()) * 0x9e3779b97f4a7c15u >> 32) +
        static_cast<std::size_t>(type) * 2 + static_cast<std::size_t>(use);
    Entry& entry = entries_[number % entries_.size()];
    // The length, too: a name may be the beginning of a longer one.
    if (entry.kernel == nullptr || entry.family != family.data() || entry.size != family.size() ||
        entry.type != type || entry.use != use)
      entry = {family.data(), family.size(), use, type,
               use == KernelUse::batch ? backend.find_kernel(batch_family(family), type)
                                       : backend.find_kernel(family, type)};
    return entry.kernel;
  }

 private:
  struct Entry {
    const char* family = nullptr;
    std::size_t size = 0;
    KernelUse use{};
    DataType type{};
    KernelHandle kernel = nullptr;
  };
  std::array<Entry, 64> entries_;
};

}  // namespace plait
