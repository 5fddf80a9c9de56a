// A task to measure: a call and its buffers.
#pragma once
#include <cstddef>

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

  std::size_t send_bytes() const { return send == nullptr ? 0 : plait::send_bytes(call); }
  std::size_t recv_bytes() const { return recv == nullptr ? 0 : plait::recv_bytes(call); }
};

/// The call with the collective, type, operation and root of `operation`. Its larger buffer has
/// about `bytes` bytes: no more, unless each block would have less than one element. A barrier has
/// none. `symmetric`
/// says whether the buffers are in symmetric memory. They begin `offset` bytes behind those of the
/// arena.
Task make_task(const Call& operation, std::size_t bytes, bool in_place, bool symmetric,
               const Arena& buffers, int rank, int ranks, std::size_t offset = 0);

}  // namespace plait::bench
