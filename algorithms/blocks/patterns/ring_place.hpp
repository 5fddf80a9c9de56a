// A rank's place in a ring of all ranks, in the order of `Topology::ring`. Plain arithmetic.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <span>

#include "backends/device/target.hpp"

namespace plait {

struct RingPlace {
  int position, ranks;
  int before, after;  // the neighbouring ranks; itself if it is alone

  /// `order`: all ranks, or empty for 0, 1, 2, ...
  static RingPlace of(std::span<const int> order, int rank, int ranks) {
    const auto at = [&](int p) { return order.empty() ? p : order[static_cast<unsigned>(p)]; };
    int position = 0;
    while (at(position) != rank) ++position;
    return {position, ranks, at((position + ranks - 1) % ranks), at((position + 1) % ranks)};
  }
  /// The same ring the other way round: position 0 stays.
  PLAIT_DEVICE constexpr RingPlace reversed() const {
    return {(ranks - position) % ranks, ranks, after, before};
  }
  /// The position `offset` further on, for offsets from -ranks to ranks.
  PLAIT_DEVICE constexpr int further(int offset) const {
    return (position + offset + ranks) % ranks;
  }
};

}  // namespace plait
