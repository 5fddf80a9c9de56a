// Sizing of scratch memory.
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace plait {

/// The largest power of two of slots, from `least` to `most`, so that `slots * bytes_a_slot` stays
/// within `budget`. `least` if none does: the communicator then reports that the limit is too
/// small.
constexpr std::uint32_t slots_within(std::size_t budget, std::size_t bytes_a_slot,
                                     std::uint32_t least, std::uint32_t most) {
  const std::size_t fitting = std::bit_floor(budget / bytes_a_slot);
  return static_cast<std::uint32_t>(std::clamp<std::size_t>(fitting, least, most));
}

/// Bytes that stripes of a message are multiples of: 16 a thread, so that a block's threads have
/// one pack each, and whole packs on every target.
constexpr std::size_t stripe_grain(unsigned threads) {
  return std::max<std::size_t>(64, std::size_t{threads} * 16 / 64 * 64);
}

/// Blocks for `items` when each should get about `grain` of them.
constexpr unsigned blocks_for(std::size_t items, std::size_t grain, unsigned most) {
  return static_cast<unsigned>(
      std::clamp<std::size_t>((items + grain - 1) / grain, 1, std::max(most, 1u)));
}

/// Blocks for `bytes` that are read out of peers' memory, in stripes of up to 256 MB, one at least
/// per unit. A peer waits for one stripe at a time, so its deadline is not that of the whole
/// message.
constexpr unsigned reading_blocks(std::size_t bytes, unsigned units, unsigned most) {
  return std::min(std::max(units, blocks_for(bytes, std::size_t{256} << 20, most)), most);
}

/// The most blocks that a launch should have by itself where perhaps one of them fits on a
/// multiprocessor: one multiprocessor is left to the kernels of another communicator
/// (docs/invariants.md, 1).
constexpr unsigned most_units(unsigned units) { return units > 1 ? units - 1 : 1; }
/// The same where two fit.
constexpr unsigned most_in_pairs(unsigned units) { return 2 * most_units(units); }

/// Blocks that are enough for the loops over packs to count those of a stripe
/// (building_blocks/pack_loop.hpp).
constexpr unsigned least_blocks(std::size_t bytes) {
  constexpr std::size_t stripe = std::size_t{16} << 30;  // packs have 16 bytes at least
  return static_cast<unsigned>(bytes / stripe + 1);
}

}  // namespace plait
