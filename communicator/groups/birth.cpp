#include "communicator/groups/birth.hpp"

#include <algorithm>
#include <atomic>

#include "symm_mem/window.hpp"

namespace plait {

namespace {

std::atomic<std::uint64_t> ticks = 0;  // of this process

}  // namespace

Birth propose_birth() { return {.time = ++ticks, .token = draw_token()}; }

/// The latest proposal counts, and sets the clock of every process that hears of it. So what a
/// process makes after that has a later time.
Birth settle_birth(std::span<const Birth> proposals) {
  const Birth latest = *std::max_element(proposals.begin(), proposals.end());
  for (std::uint64_t now = ticks; now < latest.time;)
    if (ticks.compare_exchange_weak(now, latest.time)) break;
  return latest;
}

}  // namespace plait
