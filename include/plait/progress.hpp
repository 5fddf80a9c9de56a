// How far the kernels of a communicator have come.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <vector>

#include "plait/language.hpp"

namespace plait {

/// What one rank's blocks have started and completed; from `Communicator::progress`. A call is one
/// kernel launch. The exception is `copy_engine`: it launches several kernels, and its copies are
/// not counted. The words are read one by one while kernels run, so a block's count may already
/// include a launch whose time is not there yet.
struct Progress {
  struct Block {
    /// Launches that had this block, since the communicator was made.
    std::uint64_t started = 0, completed = 0;
    /// Time of the latest start and of the latest completion; 0: never. On GPUs by the device's
    /// clock, whose zero differs from the host's, so only differences have a meaning. On the host
    /// target by std::chrono::steady_clock.
    std::chrono::nanoseconds started_at{}, completed_at{};
  };
  std::vector<Block> blocks;                 ///< up to the last that has started, at most 1024
  std::uint64_t started = 0, completed = 0;  ///< sums over the blocks; equal if nothing runs
};

}  // namespace plait
