// The threads of one block on the host target.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>

#include "core/backoff.hpp"

namespace plait::host {

/// For waits of kernels. `KernelWords::spin` polls many times before its first pause, so pauses
/// begin with a yield.
inline constexpr Backoff::Pace host_pace{.spins = 0, .sleep = std::chrono::microseconds(50)};

/// Barrier and vote of the threads of a block. A broken team (a wait has failed) lets every thread
/// through, so no thread waits for one that has returned.
class Team {
 public:
  explicit Team(unsigned threads) : threads_(threads) {}

  void sync() {
    if (threads_ == 1) return;
    const unsigned generation = generation_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    Backoff backoff(host_pace);
    while (generation_.load(std::memory_order_acquire) == generation && !broken()) backoff.pause();
  }

  /// `round` counts the votes of a thread. Three ballots take turns: the one after next is
  /// cleared while no thread can be writing or reading it.
  bool all(bool flag, unsigned thread, unsigned round) {
    if (threads_ == 1) return flag;
    if (!flag) vetoed_[round % 3].store(true, std::memory_order_relaxed);
    sync();
    const bool result = !vetoed_[round % 3].load(std::memory_order_relaxed) && !broken();
    if (thread == 0) vetoed_[(round + 2) % 3].store(false, std::memory_order_relaxed);
    return result;
  }

  void break_up() { broken_.store(true, std::memory_order_release); }
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  unsigned threads() const { return threads_; }

 private:
  unsigned threads_;
  std::atomic<unsigned> arrived_{0}, generation_{0};
  std::atomic<bool> vetoed_[3] = {};
  std::atomic<bool> broken_{false};
};

}  // namespace plait::host
