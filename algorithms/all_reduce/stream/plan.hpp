// The bytes of a message that a block handles in each step of stream. Plain arithmetic;
// unit tests check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/device.hpp"

namespace plait::stream {

struct Plan {
  static constexpr std::uint32_t slots = 4;  // of a channel

  Partition slices;   // of the message, in bytes: one per rank that reduces
  Partition stripes;  // of a slice, in bytes: one per block
  Chunks chunks;      // of a stripe: each fits a slot
  /// Steps from a chunk's scatter to its reduction, and from there to its gather; below `slots`.
  std::uint32_t lag;
  /// Results go to peers. Else every rank reduces the whole message: one slice.
  bool has_results;

  /// `slot_bytes` and `grain` are multiples of a pack. With `everywhere`, every rank reduces the
  /// whole message.
  static constexpr Plan of(std::size_t bytes, int ranks, unsigned blocks, std::size_t grain,
                           std::uint32_t slot_bytes, bool everywhere) {
    Plan plan{};
    plan.slices = Partition::of(bytes, everywhere ? 1u : static_cast<unsigned>(ranks), 64);
    plan.stripes = Partition::of(plan.slices.each, blocks, grain);
    plan.chunks = Chunks::of(plan.stripes.each, 4, grain, slot_bytes);
    plan.lag = plan.stripes.each > 3 * std::size_t{plan.chunks.bytes} ? 2 : 1;
    plan.has_results = !everywhere;
    return plan;
  }

  /// Chunk k of a stripe of a slice, in bytes of the message. The last slices may be shorter than
  /// the others; their last chunks are then shorter too, or empty.
  PLAIT_DEVICE constexpr Range chunk(int slice, Range stripe, std::uint32_t k) const {
    const Range all = slices.at(static_cast<unsigned>(slice));
    const Range part = chunks.at(stripe, k);
    const std::size_t begin = all.begin + part.begin, end = all.begin + part.end;
    return {begin < all.end ? begin : all.end, end < all.end ? end : all.end};
  }
};

}  // namespace plait::stream
