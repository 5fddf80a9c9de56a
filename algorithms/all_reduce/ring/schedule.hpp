// The chunk that a rank handles in each step of a ring all-reduce. Plain arithmetic; unit tests
// simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/target.hpp"

namespace plait::ring {

/// A rank's place in one ring. A reverse ring numbers the ranks backwards, so that the same steps
/// run the other way round.
struct Place {
  int position, ranks;
  bool reverse;

  PLAIT_DEVICE static constexpr Place of(int rank, int ranks, bool reverse) {
    return {reverse ? (ranks - rank) % ranks : rank, ranks, reverse};
  }
  PLAIT_DEVICE constexpr int rank_at(int p) const { return reverse ? (ranks - p) % ranks : p; }
  PLAIT_DEVICE constexpr int next() const { return rank_at((position + 1) % ranks); }
  PLAIT_DEVICE constexpr int previous() const { return rank_at((position + ranks - 1) % ranks); }
  /// Chunk `position + offset`, for offsets from -ranks to ranks.
  PLAIT_DEVICE constexpr int chunk(int offset) const { return (position + offset + ranks) % ranks; }
};

/// The all-reduce of n chunks by the five primitives, for n >= 2 and with k the own position:
///   send(k)
///   recv_reduce_send(k-1) ... recv_reduce_send(k-n+2)
///   recv_reduce_copy_send(k+1)
///   recv_copy_send(k) ... recv_copy_send(k-n+3)
///   recv(k+2)
/// Each call returns whether it succeeded. The first one that fails ends the sequence.
template <class Primitives>
PLAIT_DEVICE bool all_reduce(Primitives& ring, const Place& k) {
  const int n = k.ranks;
  if (n == 1) return ring.copy(0);
  bool ok = ring.send(k.chunk(0));
  for (int i = 1; ok && i <= n - 2; ++i) ok = ring.recv_reduce_send(k.chunk(-i));
  ok = ok && ring.recv_reduce_copy_send(k.chunk(1));
  for (int i = 0; ok && i <= n - 3; ++i) ok = ring.recv_copy_send(k.chunk(-i));
  return ok && ring.recv(k.chunk(2 % n));
}

}  // namespace plait::ring
