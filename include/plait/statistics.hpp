// What a communicator has done so far.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "plait/language.hpp"

namespace plait {

/// Counts of one rank since its communicator was made. Replays of graphs do not count: a captured
/// call counts once.
struct Statistics {
  std::uint64_t calls = 0;     ///< calls with work to do; both ends of a send_recv are one call
  std::uint64_t launches = 0;  ///< kernel launches
  std::uint64_t groups = 0;    ///< groups ended that had calls of this communicator
  std::uint64_t batched = 0;   ///< calls in groups that shared a launch with other calls

  /// Launches that serve several messages, and the messages in them, by where the kernel finds the
  /// descriptions of the messages.
  struct Work {
    std::uint64_t launches = 0, items = 0;
  };
  Work in_arguments;  ///< in the launch's own arguments: few messages
  Work in_fifo;       ///< in the work FIFO
  Work persistent;    ///< in memory kept for replays: many messages, captured

  std::size_t fifo_bytes = 0;  ///< size of the work FIFO: PLAIT_WORK_FIFO_BYTES
  /// Part of the FIFO used by launches that were not known to have ended at the latest launch.
  std::size_t fifo_bytes_in_use = 0;
  std::uint64_t fifo_waits = 0;  ///< launches that had to wait for room in the FIFO

  /// Memory of this rank that algorithms may use (PLAIT_SCRATCH_BYTES limits it), and the committed
  /// part of it. On the host target calls commit pages as they touch them; on GPUs the first call
  /// of an algorithm commits that algorithm's memory (Communicator::reserve).
  std::size_t scratch_bytes = 0, scratch_bytes_committed = 0;
};

}  // namespace plait
