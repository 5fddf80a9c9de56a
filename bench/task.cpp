#include "bench/task.hpp"

#include <algorithm>

namespace plait::bench {
namespace {

constexpr double premul_scale = 0.5;  // exact in every type

/// Count of elements per block, so that all blocks together have about `bytes` bytes. If there are
/// several, each begins at a multiple of 16 bytes, as in nccl-tests, for any number of ranks; only
/// the shortest blocks do not.
std::size_t elements(const Call& call, std::size_t bytes) {
  const std::size_t block = bytes / static_cast<std::size_t>(call.parts),
                    aligned = call.parts == 1 || block < 16 ? block : block / 16 * 16;
  return std::max<std::size_t>(1, aligned / size_of(call.type));
}

}  // namespace

Task make_task(const Call& operation, std::size_t bytes, bool in_place, bool symmetric,
               const Arena& buffers, int rank, int ranks) {
  const CollectiveFacts facts = facts_of(operation.collective);
  Task task{.call = operation, .in_place = in_place, .rank = rank, .ranks = ranks};
  Call& call = task.call;
  call.parts = parts_of(call.collective, ranks);
  call.count = elements(call, bytes);
  call.scale = call.op == ReduceOp::premul_sum ? premul_scale : 1;
  call.symmetric = symmetric;
  call.in_place = symmetric && in_place && !facts.rooted;
  const CallBuffers own = buffers_of(call, in_place, buffers.send(), buffers.recv(), rank);
  task.send = own.send;
  task.recv = own.recv;
  return task;
}

}  // namespace plait::bench
