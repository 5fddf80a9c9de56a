// The pauses of a thread that polls for another thread or process.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <thread>

namespace plait {

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
    const unsigned awake = pace_.spins + yields;
    if (pauses_ < awake + pace_.longest * equal_sleeps) ++pauses_;
    if (pauses_ > awake) {
      const unsigned times = 1 + (pauses_ - awake - 1) / equal_sleeps;
      std::this_thread::sleep_for(pace_.sleep * times);
    } else if (pauses_ > pace_.spins) {
      std::this_thread::yield();
    }
  }

 private:
  static constexpr unsigned yields = 2000;  // a millisecond; more if other threads get the core
  static constexpr unsigned equal_sleeps = 100;

  Pace pace_;
  unsigned pauses_ = 0;
};

}  // namespace plait
