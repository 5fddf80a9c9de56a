// Loops over the ranks of a communicator, in an order that spreads them over the links.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/device.hpp"

namespace plait {

/// Calls `body` with every rank, beginning with the next one, so that no two ranks write to the
/// same peer first. This rank itself comes last or, without `Own`, not at all. `Ranks`: their
/// number, a power of two, or 0 for any number.
template <int Ranks, bool Own = true, class Body>
PLAIT_DEVICE void for_each_rank(int rank, int ranks, Body body) {
  constexpr int left_out = Own ? 0 : 1;
  if constexpr (Ranks == 0) {
    for (int s = 1; s <= ranks - left_out; ++s) body(rank_after(rank, s, ranks));
  } else {
    PLAIT_UNROLL
    for (int s = 1; s <= Ranks - left_out; ++s) body((rank + s) & (Ranks - 1));
  }
}
template <int Ranks, class Body>
PLAIT_DEVICE void for_each_peer(int rank, int ranks, Body body) {
  for_each_rank<Ranks, false>(rank, ranks, body);
}

/// Ranks that one step of `for_ranks_together` handles.
template <int Ranks>
inline constexpr int ranks_together = Ranks == 0 ? 4 : Ranks;
/// Goes through all ranks in steps of `ranks_together<Ranks>`. A step calls `load(place, peer,
/// there)` for each of its ranks, then `put(place, peer, there)` for each; places count from 0. The
/// last step may have places left over, with `there` false.
template <int Ranks, class Load, class Put>
PLAIT_DEVICE void for_ranks_together(int rank, int ranks, Load load, Put put) {
  constexpr int together = ranks_together<Ranks>;
  const auto peer_at = [&](int s) {
    return Ranks != 0   ? (rank + s) & (together - 1)
           : s <= ranks ? rank_after(rank, s, ranks)
                        : rank;
  };
  for (int begin = 1; begin <= (Ranks == 0 ? ranks : 1); begin += together) {
    PLAIT_UNROLL
    for (int j = 0; j < together; ++j)
      load(j, peer_at(begin + j), Ranks != 0 || begin + j <= ranks);
    PLAIT_UNROLL
    for (int j = 0; j < together; ++j) put(j, peer_at(begin + j), Ranks != 0 || begin + j <= ranks);
  }
}

}  // namespace plait
