// Who sends what to whom in broadcast and reduce of two hops: a slice of the message for each rank
// but the root, its relay. Broadcast: the root sends each relay its slice, which sends it on to the
// other relays. Reduce, the same backwards: every relay gets the others' terms of its slice, and
// sends the root the sum with its own.
#pragma once
#include "backends/device/device.hpp"

namespace plait {

struct RelayPattern {
  bool reduces;
  int rank, ranks, root;

  /// A rank alone has one, and no relay.
  PLAIT_DEVICE static constexpr int slices_of(int ranks) { return ranks > 1 ? ranks - 1 : 1; }
  PLAIT_DEVICE constexpr int slices() const { return slices_of(ranks); }
  PLAIT_DEVICE constexpr bool is_root() const { return rank == root; }

  PLAIT_DEVICE constexpr int relay(int slice) const { return rank_after(root, slice + 1, ranks); }
  PLAIT_DEVICE constexpr int slice_of(int relay) const {
    return rank_after(relay, ranks - root - 1, ranks);
  }

  /// To another rank.
  PLAIT_DEVICE constexpr bool sends(int from, int to) const {
    return from != to && (reduces ? from : to) != root;
  }
  /// The slice that travels there.
  PLAIT_DEVICE constexpr int slice_between(int from, int to) const {
    return slice_of(reduces ? (to == root ? from : to) : (from == root ? to : from));
  }

  /// The `i`-th of the other relays, for a relay; i from 0 to ranks - 3. The next one first, so
  /// that not all send to the same.
  PLAIT_DEVICE constexpr int other_relay(int i) const {
    const int own = slice_of(rank) + i + 1;
    return relay(own < ranks - 1 ? own : own - (ranks - 1));
  }
};

}  // namespace plait
