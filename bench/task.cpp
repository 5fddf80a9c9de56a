#include "bench/task.hpp"

#include <algorithm>
#include <numeric>

namespace plait::bench {
namespace {

constexpr double premul_scale = 0.5;  // exact in every type

}  // namespace

std::size_t Task::own_begin() const {
  const auto own = static_cast<std::size_t>(rank);
  if (counts.empty()) return own * call.count;
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

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

Task with_uneven_blocks(Task task) {
  const std::size_t mean = task.call.count, half = (mean + 1) / 2;
  task.counts.assign(static_cast<std::size_t>(task.ranks), mean);
  for (std::size_t first = 0; first + 1 < task.counts.size(); first += 2) {
    task.counts[first] += half;
    task.counts[first + 1] -= half;
  }
  if (task.in_place && task.send != nullptr)
    task.recv = static_cast<std::byte*>(const_cast<void*>(task.send)) +
                task.own_begin() * size_of(task.call.type);
  return task;
}

}  // namespace plait::bench
