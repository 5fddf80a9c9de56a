// What every kernel of the program's own (plait/kernel.hpp) gets from its communicator.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "backends/device/device.hpp"
#include "plait/types.hpp"

namespace plait {

/// The memory through which rows travel (plait/rows.hpp), for each block and writer: slots for
/// steps that travel plainly. For the first half of the blocks also slots for steps that are
/// packets, and two halves for whole rows.
struct RowMemory {
  static constexpr unsigned max_blocks = 256, slots = 4;
  static constexpr std::size_t slot_packs = 512, slot_bytes = slot_packs * 16;  // of a step
  static constexpr std::size_t most_row_bytes = 4 * slot_bytes;
  static constexpr std::size_t lane_bytes = slots * slot_bytes;
  static constexpr std::size_t gathered = 2 * lane_bytes;  // a pack has two packets
  static constexpr std::size_t second_lane_bytes = gathered + 2 * most_row_bytes;
  static constexpr std::size_t counters = std::size_t{3} * max_blocks;  // words

  WindowView lanes, second_lanes;  // [block][writer]
  // [block]: how many there were.
  std::uint32_t *steps = nullptr, *steps_of_packets = nullptr, *gatherings = nullptr;

  static constexpr std::size_t lanes_bytes(unsigned blocks, int ranks) {
    return std::size_t{blocks} * static_cast<unsigned>(ranks) * lane_bytes;
  }
  static constexpr std::size_t bytes(unsigned blocks, int ranks) {
    return lanes_bytes(blocks, ranks) +
           std::size_t{(blocks + 1) / 2} * static_cast<unsigned>(ranks) * second_lane_bytes;
  }
};

/// This rank, and its memory for signals and sums. The communicator fills it in.
///
/// Why no barrier is missing in `Here`, which uses it:
/// 1. Each word has one writer, block b of one rank, and one reader, block b of another. Both count
///    in private memory, which one thread uses: launches of a communicator run one after the other.
///    Counts wrap together, because a wait compares by a signed difference.
/// 2. A signal is a release behind a `sync`, and a wait an acquire in front of one, so they order
///    what all threads of the two blocks do.
/// 3. A round of sums writes the half of its parity. A rank begins round e + 2 after it has seen
///    all packets of round e + 1, which their ranks sent after they had read those of round e.
/// 4. The last block of a total sees the partial sums of all blocks, because `arrive` is a release
///    in each of them and an acquire in the last. No block comes to the next total before that
///    kernel has ended.
struct KernelSetting {
  static constexpr unsigned max_blocks = 256, max_threads = 512;
  static constexpr unsigned slots = 8;  // of signals, for each block and pair of ranks
  /// Steps of waits, as diagnostic records have them, beyond the slots: no such slot; the barrier;
  /// a sum. The first two are rows of words, too.
  static constexpr unsigned no_slot = slots, barrier = slots + 1, rows = slots + 2, sum = rows;
  static constexpr unsigned term_of_row = rows + 1, gathered_row = rows + 2;  // see `RowMemory`
  static constexpr unsigned max_values = 8;                                   // of one sum
  static constexpr unsigned rounds =
      max_blocks + 1;  // of sums: one for each block, and the total's

  static constexpr int most_ranks = static_cast<int>(block_memory_bytes / 8 / max_values);

  WindowView words;              // [block][row][writer]
  WindowView packets;            // [round][half][writer][value]
  RowMemory row_memory;          // of collectives that end in a function
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

/// The names of the algorithms that launch such kernels: without and with memory for rows.
inline constexpr char own_kernel_name[] = "own_kernel", own_rows_name[] = "own_rows";
constexpr bool is_own_kernel(std::string_view algorithm) {
  return algorithm == own_kernel_name || algorithm == own_rows_name;
}

/// A number for the kernel of this name, which ranks compare: FNV-1a.
constexpr std::uint64_t number_of_own_kernel(std::string_view name) {
  std::uint64_t number = 0xcbf29ce484222325u;
  for (const char letter : name)
    number = (number ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return number;
}

/// What a view of a window holds.
struct PeerWindow {
  WindowView window{};
  int ranks = 0;
  std::size_t number = 0;  // of the window in its communicator
};

/// What ranks compare of a launch besides the kernel: rows and columns of a matrix, or blocks and
/// threads as the program has asked for them.
struct OwnExtents {
  std::uint32_t first = 0, second = 0;
  constexpr std::uint64_t packed() const { return std::uint64_t{first} << 32 | second; }
  static constexpr OwnExtents of(std::uint64_t packed) {
    return {static_cast<std::uint32_t>(packed >> 32), static_cast<std::uint32_t>(packed)};
  }
};

/// What plait::launch asks of a communicator.
struct KernelLaunch {
  std::uint64_t number = 0;                      // of its name
  const void* (*kernel)(BackendKind) = nullptr;  // its KernelHandle; null: not compiled for it
  LaunchShape shape{};
  std::span<const std::byte> args{};      // they begin with a `KernelSetting`
  std::span<const PeerWindow> windows{};  // that arguments view
  /// Whether it needs `RowMemory`, and how many blocks have it and fit on the device: all, or half
  /// of them if they use the second lanes or have more than 256 threads. The shape then says how
  /// many blocks have work, and perhaps fewer are launched.
  enum class Rows : std::uint8_t { none, in_all_blocks, in_half_of_the_blocks } rows = Rows::none;
  /// Equal on all ranks: of a matrix, or teams and threads where `shape` does not say them.
  std::size_t rows_of_matrix = 0, columns_of_matrix = 0;
  std::string_view caller = "launch", refusal{};  // why the call is refused; empty: it is not

  constexpr OwnExtents extents() const {
    return rows_of_matrix == 0 ? OwnExtents{shape.blocks, shape.threads}
                               : OwnExtents{static_cast<std::uint32_t>(rows_of_matrix),
                                            static_cast<std::uint32_t>(columns_of_matrix)};
  }
};

}  // namespace plait
