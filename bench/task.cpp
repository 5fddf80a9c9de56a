#include "bench/task.hpp"

#include <algorithm>

namespace plait::bench {
namespace {

constexpr double premul_scale = 0.5;  // exact in every type

}  // namespace

Task make_task(const Call& operation, std::size_t bytes, bool in_place, bool symmetric,
               const Arena& buffers, int rank, int ranks, std::size_t offset) {
  const CollectiveFacts facts = facts_of(operation.collective);
  Task task{
      .call = operation, .in_place = in_place, .offset = offset, .rank = rank, .ranks = ranks};
  Call& call = task.call;
  call.parts = parts_of(call.collective, ranks);
  call.count = call.collective == Collective::barrier ? 0 : count_within(call, bytes);
  call.scale = call.op == ReduceOp::premul_sum ? premul_scale : 1;
  call.symmetric = symmetric;
  call.in_place = symmetric && in_place && !facts.rooted;
  const CallBuffers own =
      buffers_of(call, in_place, buffers.send() + offset, buffers.recv() + offset, rank);
  task.send = own.send;
  task.recv = own.recv;
  return task;
}

}  // namespace plait::bench
