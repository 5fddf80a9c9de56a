// How far the kernels of a communicator have come.
#pragma once
#include <chrono>
#include <cstdint>
#include <vector>

#include "plait/language.hpp"

namespace plait {

/// What one rank's blocks have started and completed; from `Communicator::progress`. A call
/// launches one kernel; `copy_engine` several, and copies, which are not counted. Read while
/// kernels run, word by word: a time may be that of the launch before the one that is counted
/// already.
struct Progress {
  struct Block {
    std::uint64_t started = 0,
                  completed = 0;  ///< launches that had this block, since the communicator was made
    /// When it last did either, on the device's clock, whose zero is not the host's: only
    /// differences mean something. On the host target it is std::chrono::steady_clock. 0: never.
    std::chrono::nanoseconds started_at{}, completed_at{};
  };
  std::vector<Block> blocks;                 ///< up to the last that has started, at most 1024
  std::uint64_t started = 0, completed = 0;  ///< sums over the blocks; equal if nothing runs
};

}  // namespace plait
