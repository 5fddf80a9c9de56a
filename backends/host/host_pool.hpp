// Runs the blocks of a launch on a few threads.
#pragma once
#include <cstddef>
#include <optional>

#include "backends/device/launch_types.hpp"
#include "backends/host/host_kernels.hpp"
#include "core/thread_team.hpp"

namespace plait::host {

/// PoolSettings of the host target, from the environment, read once.
struct PoolSettings {
  unsigned workers;        // PLAIT_HOST_WORKERS: blocks that run at once in a launch, default 1
  unsigned block_threads;  // PLAIT_HOST_BLOCK_THREADS: threads a block that kernels are launched
                           // with by default, default 1
  std::optional<unsigned>
      spins;  // PLAIT_HOST_SPINS: looks before a waiting thread gives its core away; none: a guess
  bool peer_reads;  // PLAIT_HOST_PEER_READS, default 1: ordinary memory of other processes may be
                    // read
};
const PoolSettings& settings();

/// A launch ready to run. A copy of its arguments lies right behind it.
struct alignas(16) Launch {
  HostKernel kernel;
  LaunchShape shape;
  Watch watch;
  void* args() { return this + 1; }
  const void* args() const { return this + 1; }
};

/// Worker w of W runs blocks w, w + W, w + 2W ... in this order, each with a team of
/// `shape.threads` threads. So the lowest block that is not finished on some rank is always being
/// run there, and a launch whose block b waits only for its peers' block b never deadlocks, however
/// many workers each rank has.
class Pool {
 public:
  /// Runs the launch to its end, in the default floating-point environment. One caller at a time.
  void run(const Launch& launch);

 private:
  ThreadTeam threads_{"the threads of a host kernel"};
};

}  // namespace plait::host
