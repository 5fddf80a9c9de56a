// Which bytes of a message a block works on in which step of stream and twoshot_push. Plain arithmetic, checked in the unit tests.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/device.hpp"

namespace plait::stream {

struct Plan {
  static constexpr std::uint32_t slots = 4;  // of a channel

  Parts slices;               // of the message, in bytes: one a rank that reduces
  Parts stripes;              // of a slice, in bytes: one a block
  std::uint32_t piece_bytes;  // of a stripe: what a slot gets
  std::uint32_t lag;          // steps from a piece's scatter to its reduction, and from there to its gather; less than `slots`
  bool has_results;           // results go to peers. If not, every rank reduces everything: one slice

  /// `slot_bytes` and `grain` are multiples of a pack. With `everywhere`, every rank reduces the whole message.
  static constexpr Plan of(std::size_t bytes, int ranks, unsigned blocks, std::size_t grain, std::uint32_t slot_bytes, bool everywhere) {
    Plan plan{};
    plan.slices = Parts::of(bytes, everywhere ? 1u : static_cast<unsigned>(ranks), 64);
    plan.stripes = Parts::of(plan.slices.each, blocks, grain);
    // A few pieces a stripe, so that their ways overlap; but not so small that a step's fixed cost shows.
    const std::size_t quarter = Parts::of(plan.stripes.each, 4, grain).each;
    const std::size_t wanted = quarter < grain ? grain : quarter;
    plan.piece_bytes = wanted < slot_bytes ? static_cast<std::uint32_t>(wanted) : slot_bytes;
    plan.lag = plan.stripes.each > 3 * std::size_t{plan.piece_bytes} ? 2 : 1;
    plan.has_results = !everywhere;
    return plan;
  }

  PLAIT_DEVICE constexpr std::uint32_t pieces_of(Range stripe) const {
    return static_cast<std::uint32_t>((stripe.size() + piece_bytes - 1) / piece_bytes);
  }
  /// Bytes of the message: piece k of a stripe of a slice. The last slices may be shorter than the others: their pieces then are, or empty.
  PLAIT_DEVICE constexpr Range piece(int slice, Range stripe, std::uint32_t k) const {
    const Range all = slices.at(static_cast<unsigned>(slice));
    const std::size_t begin = all.begin + stripe.begin + std::size_t{k} * piece_bytes;
    const std::size_t end = begin + piece_bytes < all.begin + stripe.end ? begin + piece_bytes : all.begin + stripe.end;
    return {begin < all.end ? begin : all.end, end < all.end ? end : all.end};
  }
};

}  // namespace plait::stream
