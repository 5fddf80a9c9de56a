// A kernel of the GPU targets: functions of the file in which it was compiled, because a kernel can
// only be launched from its own module.
#pragma once
#include "backends/device/kernel_table.hpp"
#include "backends/device/launch_types.hpp"

namespace plait::gpu {

/// The largest block that kernels are compiled for.
inline constexpr unsigned max_threads = 512;

/// Dynamic shared memory that a launch may use without setting the kernel's attribute.
inline constexpr std::size_t default_shared_bytes = 48 * 1024;

/// `Status` and `Stream`: the runtime's types.
template <class Status, class Stream>
struct GpuKernel {
  /// Launches on the current device. `early`: where the target supports it, the kernel may be
  /// started before the kernel ahead of it in the stream has ended.
  Status (*launch)(LaunchShape shape, bool early, const void* args, const Watch& watch,
                   Stream stream);
  /// Loads the kernel onto the current device.
  Status (*load)();
  /// The number of blocks of `threads` threads that a multiprocessor of the current device runs at
  /// once.
  Status (*blocks_per_multiprocessor)(int* blocks, unsigned threads, const void* args);
};

}  // namespace plait::gpu
