// The monitor: which communicators it watches, and for how long.
#include "communicator/fault/monitor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "support/errors.hpp"
#include "support/no_threads.hpp"

namespace plait::test {
namespace {

using Clock = std::chrono::steady_clock;

void wait_for_looks(const std::atomic<int>& looks, int more) {
  const int wanted = looks + more;
  const auto until = Clock::now() + patience;
  while (looks < wanted && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(looks, wanted);
}

TEST(Monitor, LooksAfterEachForAsLongAsItLives) {
  std::atomic<int> first = 0, second = 0;
  const Monitored one([&] { ++first; });
  {
    const Monitored other([&] { ++second; });
    wait_for_looks(second, 2);
  }
  const int last = second;
  wait_for_looks(first, 2);
  EXPECT_EQ(second, last);
}

TEST(Monitor, StartsAgain) {
  for (int i = 0; i < 2; ++i) {
    std::atomic<int> looks = 0;
    const Monitored one([&] { ++looks; });
    wait_for_looks(looks, 1);
  }
}

/// A communicator whose creation failed is not watched.
TEST(Monitor, WithoutAThreadItKeepsNothing) {
  std::atomic<int> stray = 0, looks = 0;
  {
    const NoThreads none;
    expect_throws(
        ErrorCode::backend, [&] { const Monitored refused([&] { ++stray; }); }, "thread");
  }
  const Monitored one([&] { ++looks; });
  wait_for_looks(looks, 2);
  EXPECT_EQ(stray, 0);
}

}  // namespace
}  // namespace plait::test
