// Senders, receivers and slices in a broadcast or reduce of two hops. Each rank but the root is the
// relay of one slice of the message. Broadcast: the root sends each relay its slice, and the relay
// sends it on to the other relays. Reduce goes backwards: each relay gets the other relays' terms
// of its slice, adds its own, and sends the sum to the root.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/device.hpp"

namespace plait {

struct RelayPattern {
  bool reduces;
  int rank, ranks, root;

  /// A single rank has one slice, and no relay.
  PLAIT_DEVICE static constexpr int slices_of(int ranks) { return ranks > 1 ? ranks - 1 : 1; }
  PLAIT_DEVICE constexpr int slices() const { return slices_of(ranks); }
  PLAIT_DEVICE constexpr bool is_root() const { return rank == root; }

  PLAIT_DEVICE constexpr int relay(int slice) const { return rank_after(root, slice + 1, ranks); }
  PLAIT_DEVICE constexpr int slice_of(int relay) const {
    return rank_after(relay, ranks - root - 1, ranks);
  }

  PLAIT_DEVICE constexpr bool sends(int from, int to) const {
    return from != to && (reduces ? from : to) != root;
  }
  /// The slice that travels from one rank to another.
  PLAIT_DEVICE constexpr int slice_between(int from, int to) const {
    return slice_of(reduces ? (to == root ? from : to) : (from == root ? to : from));
  }

  /// The i-th of the other relays, for a relay; i is from 0 to ranks - 3. Each relay begins with
  /// the next one, so that not all send to the same.
  PLAIT_DEVICE constexpr int other_relay(int i) const {
    const int own = slice_of(rank) + i + 1;
    return relay(own < ranks - 1 ? own : own - (ranks - 1));
  }
};

}  // namespace plait
