// Progress counters and trace spans that the first thread of each block leaves for the host to read
// while kernels run: how many launches the block has started and completed, when, and, if the
// communicator is traced, one span per launch.
//
// Nothing here orders other memory accesses, and only a span waits for memory: counts and times are
// stored without waiting. Launches of one communicator run one after another, so each word has one
// writer at a time.
//
// The target provides `Ops`:
//
//   count(word)                 adds 1 to an 8-byte word and does not return it; only thread 0 of a
//                               block calls it
//   load_relaxed(word), store_relaxed(word, value)
//   nanoseconds()               a clock that runs evenly
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>

#include "backends/device/launch_types.hpp"
#include "backends/device/target.hpp"

namespace plait {

PLAIT_DEVICE bool is_counted(const Watch& watch, unsigned block, unsigned thread) {
  return watch.progress != nullptr && thread == 0 && block < counted_blocks;
}

/// Called once all earlier work in the stream is done.
template <class Ops>
PLAIT_DEVICE void log_start(const Watch& watch, unsigned block, unsigned thread) {
  if (!is_counted(watch, block, thread)) return;
  BlockProgress& mine = watch.progress[block];
  Ops::count(&mine.started);
  Ops::store_relaxed(&mine.started_ns, Ops::nanoseconds());
}

/// Called when this thread reaches the end of the kernel; other threads of its block may still
/// work.
template <class Ops>
PLAIT_DEVICE void log_end(const Watch& watch, unsigned block, unsigned blocks, unsigned thread) {
  if (!is_counted(watch, block, thread)) return;
  BlockProgress& mine = watch.progress[block];
  const std::uint64_t now = Ops::nanoseconds();
  if (watch.spans != nullptr) {
    const std::uint64_t number = Ops::load_relaxed(&mine.completed),
                        started = Ops::load_relaxed(&mine.started_ns);
    const std::uint64_t call = span_call(watch.call, blocks);
    // The place comes from the number in memory, not from a number of the launch, because a
    // replayed launch is a new span.
    BlockSpan& span = watch.spans[std::size_t{block} * span_ring + number % span_ring];
    Ops::store_relaxed(&span.seal, BlockSpan::sealed(number, call, started, now));
    Ops::store_relaxed(&span.call, call);
    Ops::store_relaxed(&span.started_ns, started);
    Ops::store_relaxed(&span.completed_ns, now);
  }
  Ops::count(&mine.completed);
  Ops::store_relaxed(&mine.completed_ns, now);
}

}  // namespace plait
