// The slices of a message and the chunks of a slice. Plain arithmetic; unit tests check it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/device.hpp"

namespace plait::copy_engine {

/// Slices begin at multiples of this many bytes: whole packs on every target.
inline constexpr std::size_t grain = 64;

/// Out of place. The terms of a slice land where other slices of the result will be, so all slices
/// have the same size. The rest, less than `grain` bytes per rank, is the tail.
struct Landing {
  std::size_t slice;  // bytes of each; 0: all is tail
  Partition chunks;   // of a slice: two, either of which may be empty
  Range tail;         // of the message

  /// Two chunks are enough: the first is summed while the last copy of the second is on its way,
  /// and the second while the result of the first is. A sum uses local memory only, at about ten
  /// times the link's rate for two ranks and at about the link's rate for eight. So each chunk
  /// hides the other's sum, and a third would only add copies, each of which costs 7 us beyond its
  /// bytes.
  static constexpr Landing of(std::size_t bytes, int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t slice = bytes / n / grain * grain;
    return {slice, Partition::of(slice, 2, grain), {slice * n, bytes}};
  }
  /// Slice `rank` of the message. Its own rank has the result there; on rank r, that rank's term of
  /// slice r lands there.
  constexpr Range at(int rank) const {
    const std::size_t begin = static_cast<std::size_t>(rank) * slice;
    return {begin, begin + slice};
  }
};

/// In place. Nothing lands anywhere, so the last slices may be shorter.
struct InPlace {
  Range slice;       // the rank's own
  Partition chunks;  // of the slice

  /// Pulls and copies use the same links, so chunks only fill each other's gaps.
  static constexpr unsigned chunk_count = 2;

  static constexpr InPlace of(std::size_t bytes, int rank, int ranks) {
    const Range slice = Partition::of(bytes, static_cast<std::size_t>(ranks), grain)
                            .at(static_cast<std::size_t>(rank));
    return {slice, Partition::of(slice.size(), chunk_count, grain)};
  }
};

}  // namespace plait::copy_engine
