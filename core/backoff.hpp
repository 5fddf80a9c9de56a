// The pauses of a thread that polls for another thread or process.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>

namespace plait {

/// What a thread does in long waits besides pausing. libplait-pmpi lets MPI proceed.
class WhileWaiting {
 public:
  using Act = void (*)() noexcept;
  /// For the waits of this thread from now on; null: nothing. Returns what was set before.
  static Act set(Act act) noexcept;
  static bool is_set() noexcept;
  static void act() noexcept;
};

/// One per wait. Call `pause()` after each poll that found nothing. The first pauses are the
/// shortest, because most waits end soon; the last ones sleep, so a long wait leaves the cores to
/// threads that compute.
class Backoff {
 public:
  struct Pace {
    unsigned spins;                   // pauses that return at once, before those that yield
    std::chrono::microseconds sleep;  // the first pauses after those that yield
    unsigned longest = 1;             // the last pauses take so many times as long
  };
  explicit constexpr Backoff(const Pace& pace) : pace_(pace) {}

  void pause() {
    if (pauses_ < pace_.spins) ++pauses_;
    else pause_longer();
  }

 private:
  void pause_longer();

  static constexpr unsigned yields = 2000;  // a millisecond; more if other threads get the core
  static constexpr unsigned equal_sleeps = 100;

  Pace pace_;
  unsigned pauses_ = 0;
};

}  // namespace plait
