#include "bench/verify.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "bench/exact/exact.hpp"

namespace plait::bench {
namespace {

constexpr unsigned char poison = 0xa5;

exact::Case case_of(const Communicator& comm, const Task& task, std::uint32_t seed) {
  return {.type = task.type, .op = task.op, .rank = comm.rank(), .ranks = comm.size(), .seed = seed, .scale = task.scale};
}

/// Bytes around the output that are no longer poison.
std::size_t count_spoilt(Backend& backend, NativeStream stream, const Task& task) {
  const auto* recv = static_cast<const std::byte*>(task.recv);
  std::vector<unsigned char> guards(2 * guard_bytes);
  backend.copy(guards.data(), recv - guard_bytes, guard_bytes, stream);
  backend.copy(guards.data() + guard_bytes, recv + task.bytes(), guard_bytes, stream);
  backend.synchronize(stream);
  return static_cast<std::size_t>(std::count_if(guards.begin(), guards.end(), [](unsigned char byte) { return byte != poison; }));
}

}  // namespace

void fill_input(Communicator& comm, NativeStream stream, const Task& task, std::uint32_t seed) {
  exact::fill(comm.backend(), stream, case_of(comm, task, seed), const_cast<void*>(task.send), task.count);
  comm.backend().synchronize(stream);
}

std::size_t count_wrong(Communicator& comm, NativeStream stream, Contender& contender, const Task& task, std::uint32_t seed) {
  Backend& backend = comm.backend();
  const exact::Case data = case_of(comm, task, seed);
  backend.fill(static_cast<std::byte*>(task.recv) - guard_bytes, poison, task.bytes() + 2 * guard_bytes, stream);
  exact::fill(backend, stream, data, const_cast<void*>(task.send), task.count);
  comm.barrier(stream_ref(stream));  // nobody reduces into a buffer that its owner still fills
  contender.enqueue(task, stream);
  comm.barrier(stream_ref(stream));  // a write that comes late would be seen
  comm.synchronize(stream_ref(stream));
  std::size_t wrong = exact::count_wrong(backend, stream, data, task.recv, task.count);
  if (!task.in_place()) wrong += exact::count_changed(backend, stream, data, task.send, task.count);
  wrong += count_spoilt(backend, stream, task);
  const auto all = comm.bootstrap().all_gather(wrong);
  return std::accumulate(all.begin(), all.end(), std::size_t{0});
}

}  // namespace plait::bench
