// Which bytes of a message a block works on in which step of stream and twoshot_push. Plain
// arithmetic, checked in the unit tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/channels/chunks.hpp"
#include "backends/device/device.hpp"

namespace plait::stream {

struct Plan {
  static constexpr std::uint32_t slots = 4;  // of a channel

  Parts slices;       // of the message, in bytes: one a rank that reduces
  Parts stripes;      // of a slice, in bytes: one a block
  Chunks chunks;      // of a stripe: what a slot gets
  std::uint32_t lag;  // steps from a chunk's scatter to its reduction, and from there to its
                      // gather; less than `slots`
  bool has_results;   // results go to peers. If not, every rank reduces everything: one slice

  /// `slot_bytes` and `grain` are multiples of a pack. With `everywhere`, every rank reduces the
  /// whole message.
  static constexpr Plan of(std::size_t bytes, int ranks, unsigned blocks, std::size_t grain,
                           std::uint32_t slot_bytes, bool everywhere) {
    Plan plan{};
    plan.slices = Parts::of(bytes, everywhere ? 1u : static_cast<unsigned>(ranks), 64);
    plan.stripes = Parts::of(plan.slices.each, blocks, grain);
    plan.chunks = Chunks::of(plan.stripes.each, 4, grain, slot_bytes);
    plan.lag = plan.stripes.each > 3 * std::size_t{plan.chunks.bytes} ? 2 : 1;
    plan.has_results = !everywhere;
    return plan;
  }

  /// Bytes of the message: chunk k of a stripe of a slice. The last slices may be shorter than the
  /// others: their chunks then are, or empty.
  PLAIT_DEVICE constexpr Range chunk(int slice, Range stripe, std::uint32_t k) const {
    const Range all = slices.at(static_cast<unsigned>(slice));
    const Range part = chunks.at(stripe, k);
    const std::size_t begin = all.begin + part.begin, end = all.begin + part.end;
    return {begin < all.end ? begin : all.end, end < all.end ? end : all.end};
  }
};

}  // namespace plait::stream
