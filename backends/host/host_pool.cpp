#include "backends/host/host_pool.hpp"

#include <algorithm>
#include <deque>

#include "backends/host/host_log.hpp"
#include "backends/host/host_words.hpp"
#include "core/environment.hpp"
#include "core/float_environment.hpp"

namespace plait::host {
namespace {

void run_block(const Launch& launch, unsigned block, unsigned thread, Team& team,
               std::byte* buffer) {
  const unsigned blocks = launch.shape.blocks;
  KernelWords words(block, blocks, thread, team, launch.watch, buffer);
  log_start<LogOps>(launch.watch, block, thread);
  launch.kernel(words, launch.args());
  log_end<LogOps>(launch.watch, block, blocks, thread);
}

}  // namespace

const PoolSettings& settings() {
  static const PoolSettings values = [] {
    PoolSettings read{
        .workers = static_cast<unsigned>(environment_integer("PLAIT_HOST_WORKERS", 1, 1, 64)),
        .block_threads =
            static_cast<unsigned>(environment_integer("PLAIT_HOST_BLOCK_THREADS", 1, 1, 64)),
        .spins = std::nullopt,
        .peer_reads = environment_integer("PLAIT_HOST_PEER_READS", 1, 0, 1) == 1};
    if (environment("PLAIT_HOST_SPINS"))
      read.spins = static_cast<unsigned>(environment_integer("PLAIT_HOST_SPINS", 0, 0, 1000000000));
    return read;
  }();
  return values;
}

struct Pool::Buffer {
  alignas(KernelWords::pack_bytes) std::byte bytes[KernelWords::buffer_bytes + block_memory_bytes];
};

/// Buffers take no memory before a kernel uses them, because the system gives pages when they are
/// touched.
Pool::Pool() {
  for (unsigned worker = 0; worker < settings().workers; ++worker)
    buffers_.push_back(std::make_unique_for_overwrite<Buffer>());
}
Pool::~Pool() = default;

void Pool::run(const Launch& launch) {
  run_blocks(launch);
  if (launch.watch.carry != nullptr) launch.watch.carry(launch.watch.carrier, -1);
}

void Pool::run_blocks(const Launch& launch) {
  // After a call that gave up, later calls would send packets that its peers still wait for.
  if (launch.watch.claimed != nullptr &&
      std::atomic_ref(*launch.watch.claimed).load(std::memory_order_acquire) != 0)
    return;
  const unsigned blocks = launch.shape.blocks, threads = launch.shape.threads;
  const unsigned workers = std::min(settings().workers, blocks);
  if (workers * threads == 1) {
    const FloatEnvironment defaults;
    for (unsigned block = 0; block < blocks; ++block) {
      Team team(1);
      run_block(launch, block, 0, team, buffers_.front()->bytes);
    }
    return;
  }
  std::deque<Team> teams;  // one per block: a broken team lets every thread through
  for (unsigned block = 0; block < blocks; ++block) teams.emplace_back(threads);
  threads_.run_with_caller(workers * threads, [&](std::size_t number) {
    const FloatEnvironment defaults;  // a thread inherits that of the thread that started it
    const auto index = static_cast<unsigned>(number);
    const unsigned worker = index / threads, thread = index % threads;
    for (unsigned block = worker; block < blocks; block += workers)
      run_block(launch, block, thread, teams[block], buffers_[worker]->bytes);
  });
}

}  // namespace plait::host
