// Where the slices of a message lie, and how one is cut. Plain arithmetic, checked by the unit
// tests.
#pragma once
#include "backends/device/device.hpp"

namespace plait::copy_engine {

/// Slices begin at multiples of this many bytes: whole packs on every target.
inline constexpr std::size_t grain = 64;

/// Out of place. A slice's terms land where other slices of the result will be, so all slices have
/// the same size; what is left over, less than `grain` bytes a rank, is the tail.
struct Landing {
  std::size_t slice;  // bytes of each; 0: all is tail
  Parts chunks;       // of a slice: two, either of which may be empty
  Range tail;         // of the message

  /// Two chunks are enough: the first is summed while the second one's last copy is on its way, the
  /// second while the first one's result is. A sum reads and writes local memory only, at about ten
  /// times the link's rate for two ranks and at a rate about equal to it for eight, so each chunk
  /// hides the other's and a third would only add copies, of which each costs 7 us beyond its
  /// bytes.
  static constexpr Landing of(std::size_t bytes, int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t slice = bytes / n / grain * grain;
    return {slice, Parts::of(slice, 2, grain), {slice * n, bytes}};
  }
  /// Slice `rank` of the message: on its own rank the result, on rank r the landing place of that
  /// rank's term of slice r.
  constexpr Range at(int rank) const {
    const std::size_t begin = static_cast<std::size_t>(rank) * slice;
    return {begin, begin + slice};
  }
};

/// In place. Nothing lands anywhere, so the last slices may be shorter.
struct InPlace {
  Range slice;   // the rank's own
  Parts chunks;  // of the slice

  /// Pulls and copies use the same links, so chunks only fill each other's gaps.
  static constexpr unsigned chunk_count = 2;

  static constexpr InPlace of(std::size_t bytes, int rank, int ranks) {
    const Range slice =
        Parts::of(bytes, static_cast<std::size_t>(ranks), grain).at(static_cast<std::size_t>(rank));
    return {slice, Parts::of(slice.size(), chunk_count, grain)};
  }
};

}  // namespace plait::copy_engine
