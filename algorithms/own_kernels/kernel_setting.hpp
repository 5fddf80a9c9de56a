// What every kernel of the program's own (plait/kernel.hpp) gets from its communicator.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/device/device.hpp"
#include "plait/types.hpp"

namespace plait {

/// This rank, and its memory for signals and sums. The communicator fills it in.
struct KernelSetting {
  static constexpr unsigned max_blocks = 256;
  static constexpr unsigned slots = 8;  // of signals, for each block and pair of ranks
  /// Steps of waits, as diagnostic records have them, beyond the slots: no such slot; the barrier;
  /// a sum. The first two are rows of words, too.
  static constexpr unsigned no_slot = slots, barrier = slots + 1, rows = slots + 2, sum = rows;
  static constexpr unsigned max_values = 8;  // of one sum
  static constexpr unsigned rounds =
      max_blocks + 1;  // of sums: one for each block, and the total's

  static constexpr int most_ranks = static_cast<int>(block_memory_bytes / 8 / max_values);

  WindowView words;              // [block][row][writer]
  WindowView packets;            // [round][half][writer][value]
  std::uint64_t* partials;       // [block][value], of the total
  std::uint32_t *sent, *seen;    // [block][row][peer]
  std::uint32_t* round_numbers;  // [round]
  std::uint32_t* arrived;        // blocks that have come to the total
  int rank, ranks;

  static constexpr std::size_t word_count(int ranks) {
    return std::size_t{max_blocks} * rows * static_cast<unsigned>(ranks);
  }
  static constexpr std::size_t packet_count(int ranks) {
    return std::size_t{rounds} * 2 * max_values * static_cast<unsigned>(ranks);
  }
};

/// The name of the algorithm that launches such kernels.
inline constexpr char own_kernel_name[] = "own_kernel";

/// What a view of a window holds.
struct PeerWindow {
  WindowView window{};
  int ranks = 0;
  std::size_t number = 0;  // of the window in its communicator
};

/// What plait::launch asks of a communicator.
struct KernelLaunch {
  std::string_view name;               // of the kernel
  const void* (*kernel)(BackendKind);  // its KernelHandle; null: not compiled for the target
  LaunchShape shape;
  std::span<const std::byte> args;       // they begin with a `KernelSetting`
  std::span<const std::size_t> windows;  // the numbers of those that arguments view
};

}  // namespace plait
