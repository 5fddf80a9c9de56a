// A message cut into one slice per rank, and each slice into one stripe per block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "backends/device/device.hpp"

namespace plait {

/// Sizes are in bytes. Stripes end at multiples of a pack or at the end of the message, so two
/// stripes have no pack in common.
struct SlicedMessage {
  Parts slices, stripes;

  /// `grain`: stripes are multiples of it, except the last ones of a slice.
  static constexpr SlicedMessage of(std::size_t bytes, int ranks, unsigned blocks,
                                    std::size_t grain) {
    const Parts slices = Parts::of(bytes, static_cast<unsigned>(ranks), slice_grain);
    return {slices, Parts::of(slices.each, blocks, grain)};
  }
  /// The stripe of `block` in the slice of `rank`, in bytes of the message.
  PLAIT_DEVICE constexpr Range stripe(int rank, unsigned block) const {
    const Range slice = slices.at(static_cast<unsigned>(rank)), stripe = stripes.at(block);
    const std::size_t begin = slice.begin + stripe.begin, end = slice.begin + stripe.end;
    return {begin < slice.end ? begin : slice.end, end < slice.end ? end : slice.end};
  }

 private:
  static constexpr std::size_t slice_grain = 64;  // whole packs on every target
};

}  // namespace plait
