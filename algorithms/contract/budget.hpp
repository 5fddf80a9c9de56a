// Sizes of scratch memory and of launches.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace plait {

/// The largest power of two from `least` to `most` with which `slots * bytes_per_slot` stays within
/// `budget`; `least` if there is none, and the communicator then reports that the limit is too
/// small.
constexpr std::uint32_t slots_within(std::size_t budget, std::size_t bytes_per_slot,
                                     std::uint32_t least, std::uint32_t most) {
  const std::size_t fitting = std::bit_floor(budget / bytes_per_slot);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(fitting, least, most));
}

/// Stripes of a message are multiples of this many bytes: 16 per thread, so that each thread of a
/// block has one pack, and whole packs on every target.
constexpr std::size_t stripe_grain(unsigned threads) {
  return std::max<std::size_t>(64, std::size_t{threads} * 16 / 64 * 64);
}

/// Blocks for `items` when each should get about `grain` of them.
constexpr unsigned blocks_for(std::size_t items, std::size_t grain, unsigned most) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((items + grain - 1) / grain, 1, std::max(most, 1u)));
}

/// Blocks for `bytes` that are read from peers' memory: at least one per multiprocessor or worker,
/// and so many that a stripe has at most 256 MB. A peer waits for one stripe at a time, so its
/// deadline does not have to cover the whole message.
constexpr unsigned reading_blocks(std::size_t bytes, unsigned units, unsigned most) {
  return std::min(std::max(units, blocks_for(bytes, std::size_t{256} << 20, most)), most);
}

/// The most blocks of a launch where perhaps only one block fits on a multiprocessor. One
/// multiprocessor is left for the kernels of another communicator (docs/invariants.md, 1).
constexpr unsigned most_units(unsigned units) { return units > 1 ? units - 1 : 1; }
/// The same where two blocks fit on a multiprocessor.
constexpr unsigned most_in_pairs(unsigned units) { return 2 * most_units(units); }

/// The most blocks of a rank that shares a GPU: so many `quarters` of its part of the
/// multiprocessors, to the nearest eight. A part that is full to the last block is slower: 2, 3 and
/// 4 ranks on one H200, 16 MB, `stream`: 73, 160 and 188 us with two blocks on each multiprocessor,
/// 65, 110 and 137 with six quarters (2026-11-30, tools/mps-run.sh).
constexpr unsigned shared_blocks(unsigned units, unsigned quarters) {
  return std::max(std::min(16u, most_units(units)), (units * quarters / 4 + 4) / 8 * 8);
}

/// The least blocks for a message: with fewer, loops over packs could not count the packs of a
/// stripe in 32 bits (algorithms/blocks/loops/pack_loop.hpp).
constexpr unsigned least_blocks(std::size_t bytes) {
  constexpr std::size_t stripe = std::size_t{16} << 30;  // packs have 16 bytes at least
  return static_cast<unsigned>(bytes / stripe + 1);
}

}  // namespace plait
