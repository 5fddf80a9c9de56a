// Runs the blocks of a launch on a few threads.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "backends/device/launch_types.hpp"
#include "backends/host/host_kernels.hpp"
#include "core/thread_team.hpp"

namespace plait::host {

/// Settings of the host target, read from the environment once.
struct PoolSettings {
  unsigned workers;        // PLAIT_HOST_WORKERS, default 1: blocks of a launch that run at once
  unsigned block_threads;  // PLAIT_HOST_BLOCK_THREADS, default 1: default threads per block
  /// PLAIT_HOST_SPINS: polls before a waiting thread yields its core. Empty: `spins_for`.
  std::optional<unsigned> spins;
  /// PLAIT_HOST_PEER_READS, default 1: kernels may read ordinary memory of other processes.
  bool peer_reads;
};
const PoolSettings& settings();

/// A launch ready to run. A copy of its arguments lies directly behind it.
struct alignas(16) Launch {
  HostKernel kernel;
  LaunchShape shape;
  Watch watch;
  void* args() { return this + 1; }
  const void* args() const { return this + 1; }
};

/// Worker w of W runs blocks w, w + W, w + 2W ... in this order, each with a team of
/// `shape.threads` threads. So every rank is always running its lowest unfinished block, and a
/// launch whose block b waits only for its peers' block b never deadlocks, however many workers
/// each rank has.
class Pool {
 public:
  Pool();
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  /// Runs the launch to its end, in the default floating-point environment. One caller at a time.
  void run(const Launch& launch);

 private:
  void run_blocks(const Launch& launch);

  struct Buffer;
  std::vector<std::unique_ptr<Buffer>> buffers_;  // KernelWords::buffer of each worker
  ThreadTeam threads_{"the threads of a host kernel"};
};

}  // namespace plait::host
