// Places for work items in a ring of memory.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "plait/error.hpp"

namespace plait {

/// A ring of a power of two bytes, in steps of 16. Places are given back in the order in which they
/// were taken. Both ends are counted in 32 bits that wrap, so only their difference has a meaning.
class WorkRing {
 public:
  static constexpr std::size_t unit = 16;
  static constexpr std::size_t least_bytes = 4096, most_bytes = std::size_t{1} << 30;
  static constexpr bool is_valid(std::size_t bytes) {
    return std::has_single_bit(bytes) && bytes >= least_bytes && bytes <= most_bytes;
  }

  /// `bytes`: see `is_valid`. `start`: the first value of both counters.
  explicit WorkRing(std::size_t bytes, std::uint32_t start = 0)
      : units_(static_cast<std::uint32_t>(bytes / unit)), produced_(start), consumed_(start) {}

  /// A contiguous place in the ring.
  struct Place {
    std::size_t offset;      // in bytes
    std::uint32_t produced;  // for `give_back`
  };
  /// None if there is no room until something is given back. A place does not run over the end of
  /// the ring: the rest there is taken with it. Throws Error(unsupported) if `bytes` are more than
  /// the whole ring.
  std::optional<Place> take(std::size_t bytes) {
    if (bytes > this->bytes())
      throw Error(ErrorCode::unsupported, "a launch has " + std::to_string(bytes) +
                                              " bytes of work items, and the work FIFO only " +
                                              std::to_string(this->bytes()) +
                                              ": set PLAIT_WORK_FIFO_BYTES to more, on all ranks");
    const auto wanted = static_cast<std::uint32_t>((bytes + unit - 1) / unit);
    const std::uint32_t at = produced_ & (units_ - 1);
    const std::uint32_t skipped = at + wanted > units_ ? units_ - at : 0;
    const bool empty = produced_ == consumed_;  // then the skipped rest is free, too
    if (!empty && produced_ - consumed_ + skipped + wanted > units_) return std::nullopt;
    if (empty) consumed_ += skipped;
    produced_ += skipped + wanted;
    return Place{((produced_ - wanted) & (units_ - 1)) * unit, produced_};
  }
  /// Gives back all places up to and including the one with this `Place::produced`.
  void give_back(std::uint32_t produced) { consumed_ = produced; }

  std::size_t bytes() const { return units_ * unit; }
  std::size_t bytes_in_use() const { return (produced_ - consumed_) * unit; }

 private:
  std::uint32_t units_, produced_, consumed_;
};

}  // namespace plait
