// How a thread of the host target spends the time while it waits for another one.
#pragma once
#include <chrono>
#include <thread>

namespace plait::host {

/// Lets other threads run between two looks at what is waited for: at once again at first, and
/// later after a sleep, so that a long wait leaves the cores to those who compute.
class Backoff {
 public:
  void pause() {
    if (yields_ < most_yields) {
      ++yields_;
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  static constexpr unsigned most_yields = 2000;  // a millisecond, or more beside others
  unsigned yields_ = 0;
};

}  // namespace plait::host
