// What a communicator has done so far.
#pragma once
#include <cstddef>
#include <cstdint>

#include "plait/language.hpp"

namespace plait {

/// Counts of one rank since its communicator was made. Replays of graphs do not count: a captured
/// call counts once.
struct Statistics {
  std::uint64_t calls = 0;     ///< that had something to do; both ends of a send_recv are one
  std::uint64_t launches = 0;  ///< of kernels
  std::uint64_t groups = 0;    ///< ended, with calls of this communicator
  std::uint64_t batched = 0;   ///< calls of groups that shared a launch with others

  /// Launches for several messages, and the messages they had, by where the kernel found what to
  /// do.
  struct Work {
    std::uint64_t launches = 0, items = 0;
  };
  Work in_arguments;  ///< in the launch's own arguments: few messages
  Work in_fifo;       ///< in the work FIFO
  Work persistent;    ///< in memory that is kept for replays: many messages, captured

  std::size_t fifo_bytes = 0;  ///< PLAIT_WORK_FIFO_BYTES
  std::size_t fifo_bytes_in_use =
      0;  ///< by launches that were not known to have ended when the last one was made
  std::uint64_t fifo_waits = 0;  ///< launches that had to wait for room in it

  /// Memory of this rank that algorithms may have (PLAIT_SCRATCH_BYTES limits it), and what of it
  /// is committed. On the host target pages are committed as calls touch them, on GPUs an
  /// algorithm's memory by its first call (Communicator::reserve).
  std::size_t scratch_bytes = 0, scratch_bytes_committed = 0;
};

}  // namespace plait
