// Random delays in the words that communicate with peers, so race tests see interleavings that an
// idle machine never shows.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <thread>

namespace plait::host {

inline void random_delay() {
  static thread_local std::uint64_t state =
      std::hash<std::thread::id>{}(std::this_thread::get_id()) | 1u;
  state ^= state << 13;  // xorshift64 (Marsaglia 2003)
  state ^= state >> 7;
  state ^= state << 17;
  if (state % 64 == 0) std::this_thread::yield();
  if (state % 4096 == 0) std::this_thread::sleep_for(std::chrono::microseconds(state / 4096 % 50));
}

}  // namespace plait::host
