// The steps of a block in the tree all-reduce. Plain arithmetic; unit tests simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "backends/device/target.hpp"

namespace plait::tree {

/// The steps of a block: chunks go up in the order of steps, and come down `lag` steps later.
struct Steps {
  std::uint32_t chunks, lag;

  static constexpr std::uint32_t slots = 4;  // of a channel
  /// Steps from a chunk's way up to its way down, per hop from the root.
  static constexpr std::uint32_t lag_per_hop = 3;
  static_assert(1 <= lag_per_hop && lag_per_hop < slots);

  PLAIT_DEVICE static constexpr Steps of(std::uint32_t chunks, int depth) {
    return {chunks, static_cast<std::uint32_t>(depth) * lag_per_hop};
  }
  PLAIT_DEVICE constexpr std::uint32_t count() const { return chunks == 0 ? 0 : chunks + lag; }
  PLAIT_DEVICE constexpr bool goes_up(std::uint32_t step) const { return step < chunks; }
  /// Unsigned: false for steps below lag.
  PLAIT_DEVICE constexpr bool comes_down(std::uint32_t step) const { return step - lag < chunks; }
};

}  // namespace plait::tree
