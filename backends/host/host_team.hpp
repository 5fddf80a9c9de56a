// The threads of one block on the host target.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstdint>

#include "backends/device/launch_types.hpp"
#include "core/backoff.hpp"

namespace plait::host {

/// For waits of kernels. `KernelWords::spin` polls many times before its first pause, so pauses
/// begin with a yield.
inline constexpr Backoff::Pace host_pace{.spins = 0, .sleep = std::chrono::microseconds(50)};

inline bool is_set(const std::uint32_t* word) {
  return word != nullptr &&
         std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire) != 0;
}

/// Decides when to give up a wait: `deadlines` times the time for it is over, the host says so, or
/// another wait has been given up.
class Patience {
  using Clock = std::chrono::steady_clock;

 public:
  Patience(const Watch& watch, unsigned block, Waiting who, std::uint32_t expected,
           int deadlines = 1)
      : watch_(watch), block_(block), who_(who), expected_(expected), deadlines_(deadlines) {}

  bool operator()() { return over(0); }
  bool over(std::uint32_t seen) {
    const auto now = Clock::now();
    if (now - looked_ < std::chrono::microseconds(10)) return false;
    looked_ = now;
    const bool expired = watch_.timeout_ns != 0 &&
                         now - start_ > deadlines_ * std::chrono::nanoseconds(watch_.timeout_ns);
    const bool aborted = is_set(watch_.abort);
    if (expired || aborted) report(expired ? out_of_time : told_to, seen);
    return expired || aborted || is_set(watch_.claimed);
  }
  void report(GaveUp why, std::uint32_t seen) const {
    std::uint32_t free = 0;
    if (watch_.claimed == nullptr ||
        !std::atomic_ref(*watch_.claimed).compare_exchange_strong(free, 1))
      return;
    describe(*watch_.record, watch_, block_, who_, expected_, seen);
    std::atomic_ref(watch_.record->state).store(why, std::memory_order_release);
  }

 private:
  const Watch& watch_;
  unsigned block_;
  Waiting who_;
  std::uint32_t expected_;
  int deadlines_;
  Clock::time_point start_ = Clock::now(), looked_ = start_;
};

/// Barrier and vote of the threads of a block. A broken team (a wait has failed) lets every thread
/// through, so no thread waits for one that has returned.
class Team {
 public:
  explicit Team(unsigned threads) : threads_(threads) {}

  /// `is_over()`: whether to give up, because a thread does not come.
  template <class Over>
  void sync(Over is_over) {
    if (threads_ == 1) return;
    // The thread has acquired this value when it left the last barrier.
    const unsigned generation = generation_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_) {
      arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      return;
    }
    Backoff backoff(host_pace);
    while (generation_.load(std::memory_order_acquire) == generation && !broken()) {
      backoff.pause();
      if (is_over()) break_up();
    }
  }

  /// `round` counts the votes of a thread. Three ballots take turns: the one after next is
  /// cleared while no thread can be writing or reading it.
  template <class Over>
  bool all(bool flag, unsigned thread, unsigned round, Over is_over) {
    if (threads_ == 1) return flag;
    if (!flag) vetoed_[round % 3].store(true, std::memory_order_relaxed);
    sync(is_over);
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
