// The exchanges of halving_doubling: partners and segments of a stripe. Plain arithmetic; unit
// tests simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "algorithms/blocks/patterns/doubling_schedule.hpp"
#include "backends/device/device.hpp"

namespace plait::halving_doubling {

/// The bytes of the message that go to a peer and those that come from it, over one way of the
/// channels.
struct Exchange {
  unsigned way;
  int peer;
  Range out, in;
  bool reduces;   // incoming bytes are added to this rank's; else they are results
  bool finishes;  // and the sum is then complete
};

/// The exchanges of a rank, in order: (fold), halving rounds 0, 1, ..., doubling rounds ..., 1, 0,
/// (unfold). A rank meets each of its peers once per way.
struct Schedule : Hypercube {
  static constexpr unsigned reducing = 0, gathering = 1;  // ways
  static constexpr std::size_t grain = 64;   // of segments, in bytes: whole packs on all targets
  static constexpr std::uint32_t slots = 4;  // of a channel

  PLAIT_DEVICE constexpr int exchanges() const {
    return is_guest() ? 2 : 2 * rounds() + (has_guest() ? 2 : 0);
  }

  PLAIT_DEVICE constexpr Exchange exchange(int i, Range stripe) const {
    const Range none{stripe.begin, stripe.begin};
    if (is_guest())
      return i == 0 ? Exchange{reducing, host(), stripe, none, true, false}
                    : Exchange{gathering, host(), none, stripe, false, false};
    if (has_guest()) {
      if (i == 0) return {reducing, guest(), none, stripe, true, false};
      if (i == exchanges() - 1) return {gathering, guest(), stripe, none, false, false};
      --i;
    }
    if (i < rounds())
      return {reducing,
              partner(i),
              segment(partner(i), i + 1, stripe),
              segment(rank, i + 1, stripe),
              true,
              i == rounds() - 1};
    const int round = 2 * rounds() - 1 - i;
    const int peer = partner(round);
    return {gathering, peer, segment(rank, round + 1, stripe), segment(peer, round + 1, stripe),
            false,     false};
  }

  /// The segment that a corner still reduces after `halvings` rounds. In each round, the partner
  /// with the lower number keeps the lower half.
  PLAIT_DEVICE static constexpr Range segment(int corner, int halvings, Range stripe) {
    for (int s = 0; s < halvings; ++s) {
      const std::size_t half = (stripe.size() / 2 + grain - 1) / grain * grain;
      const std::size_t middle = half < stripe.size() ? stripe.begin + half : stripe.end;
      if ((corner >> s & 1) != 0) stripe.begin = middle;
      else stripe.end = middle;
    }
    return stripe;
  }
};

}  // namespace plait::halving_doubling
