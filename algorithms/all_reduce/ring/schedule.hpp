// The chunk that a rank handles in each step of a ring all-reduce. Plain arithmetic; unit tests
// simulate it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/blocks/patterns/ring_place.hpp"

namespace plait::ring {

/// The all-reduce of n chunks by the five primitives, for n >= 2 and with k the own position:
///   send(k)
///   recv_reduce_send(k-1) ... recv_reduce_send(k-n+2)
///   recv_reduce_copy_send(k+1)
///   recv_copy_send(k) ... recv_copy_send(k-n+3)
///   recv(k+2)
/// Each call returns whether it succeeded. The first one that fails ends the sequence.
template <class Primitives>
PLAIT_DEVICE bool all_reduce(Primitives& ring, const RingPlace& k) {
  const int n = k.ranks;
  if (n == 1) return ring.copy(0);
  bool ok = ring.send(k.further(0));
  for (int i = 1; ok && i <= n - 2; ++i) ok = ring.recv_reduce_send(k.further(-i));
  ok = ok && ring.recv_reduce_copy_send(k.further(1));
  for (int i = 0; ok && i <= n - 3; ++i) ok = ring.recv_copy_send(k.further(-i));
  return ok && ring.recv(k.further(2 % n));
}

}  // namespace plait::ring
