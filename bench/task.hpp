// A task to measure: a call and its buffers.
#pragma once
#include <cstddef>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bench/memory.hpp"
#include "plait/types.hpp"

namespace plait::bench {

/// One call of this rank.
struct Task {
  Call call;  // all fields are set
  bool in_place = false;
  std::size_t offset = 0;
  int rank = 0, ranks = 1;
  const void* send = nullptr;  // null where this rank has no such buffer
  void* recv = nullptr;
  /// Of a reduce-scatter whose blocks differ: the elements of each rank's. `call.count` is their
  /// mean.
  std::vector<std::size_t> counts{};

  /// Elements in front of this rank's block, where the collective has a block per rank.
  std::size_t own_begin() const;
  /// Elements of each block of `recv`.
  std::size_t recv_count() const {
    return counts.empty() ? call.count : counts[static_cast<std::size_t>(rank)];
  }
  std::size_t send_bytes() const { return send == nullptr ? 0 : plait::send_bytes(call); }
  std::size_t recv_bytes() const {
    if (recv == nullptr) return 0;
    return counts.empty() ? plait::recv_bytes(call) : recv_count() * size_of(call.type);
  }
};

/// The call with the collective, type, operation and root of `operation`. Its larger buffer has
/// about `bytes` bytes: no more, unless each block would have less than one element. A barrier has
/// none. `symmetric` says whether the buffers are in symmetric memory. They begin `offset` bytes
/// behind those of the arena.
Task make_task(const Call& operation, std::size_t bytes, bool in_place, bool symmetric,
               const Arena& buffers, int rank, int ranks, std::size_t offset = 0);

/// The task of a reduce-scatter, with as many elements in all and with blocks that differ. Of ranks
/// 0 and 1, 2 and 3, and so on, the first has half the mean more and the second half the mean less.
/// The last of an odd number of ranks has the mean.
Task with_uneven_blocks(Task task);

}  // namespace plait::bench
