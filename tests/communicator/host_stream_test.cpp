// Streams of the host target, whose tasks run on a thread of their own or on the one that waits:
// wake-ups, and the bounds of a stream's queue.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "communicator/streams.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

/// Streams of the host target, whose tasks run on a thread of their own or on the one that waits.
class HostStreams : public Streams {
 protected:
  void SetUp() override {
    if (target() != BackendKind::host) GTEST_SKIP() << "is about the host target's streams";
  }
  /// As a program that calls and waits, over and over, so that the stream expects it.
  void wait_often(NativeStream s) {
    for (int i = 0; i < 100; ++i) {
      backend().host_call(s, [] {});
      backend().synchronize(s);
    }
  }
};

/// Each wake-up of a stream's thread would let it go to sleep again: a voluntary switch.
TEST_F(HostStreams, CallsThatAreWaitedForWakeNobody) {
  const NativeStream s = stream();
  wait_often(s);
  constexpr int calls = 500;
  const auto task = [] {  // long enough for a thread that was woken to come and find it taken
    const auto end = std::chrono::steady_clock::now() + 20us;
    while (std::chrono::steady_clock::now() < end) continue;
  };
  const auto switches = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  const auto before = switches();
  for (int i = 0; i < calls; ++i) {
    backend().host_call(s, task);
    backend().synchronize(s);
  }
  EXPECT_LT(switches() - before, calls / 4);
}

TEST_F(HostStreams, ATaskThatNobodyWaitsForRunsAllTheSame) {
  const NativeStream s = stream();
  for (const auto idle : {0ms, 5ms, 100ms}) {  // the stream's thread looks now and then, or sleeps
    for (int i = 0; i < 3; ++i) {
      wait_often(s);
      std::this_thread::sleep_for(idle);
      std::atomic<bool> ran = false;
      backend().host_call(s, [&] { ran = true; });
      EXPECT_TRUE(comes_true([&] { return ran.load(); })) << idle.count() << " ms";
    }
  }
}

TEST_F(HostStreams, AWaitForAnotherStreamsEventNeedsNoWaitForThatStream) {
  const NativeStream a = stream(), b = stream();
  const auto event = backend().create_event(false);
  std::atomic<int> ran = 0;
  for (int i = 1; i <= 20; ++i) {
    wait_often(a);
    wait_often(b);
    backend().host_call(a, [&] { ++ran; });
    event->record(a);
    if (i % 2 == 0) {
      event->wait_in(b);
      backend().synchronize(b);
    } else {
      event->synchronize();
    }
    EXPECT_EQ(ran, i);
    EXPECT_TRUE(event->done());
  }
}

/// A push waits for room, and goes on when there is some.
TEST_F(HostStreams, AQueueIsBounded) {
  const NativeStream s = stream();
  wait_often(s);
  Gate gate;
  gate.hold(backend(), s);
  gate.wait_until_reached();
  constexpr int all = 100000;
  std::atomic<int> pushed = 0;
  int ran = 0;
  bool in_order = true;
  std::thread caller([&] {
    for (int i = 0; i < all; ++i) {
      backend().host_call(s, [&, i] { in_order = ran++ == i && in_order; });
      ++pushed;
    }
  });
  for (int before = -1; std::exchange(before, pushed.load()) != pushed;)
    std::this_thread::sleep_for(50ms);
  EXPECT_GT(pushed, 1000);
  EXPECT_LT(pushed, all);
  gate.open();
  caller.join();
  backend().synchronize(s);
  EXPECT_EQ(ran, all);
  EXPECT_TRUE(in_order);
}

/// Bytes of this process that are in memory.
long resident_bytes() {
  long pages = 0;
  std::ifstream statm("/proc/self/statm");
  statm >> pages >> pages;
  return pages * sysconf(_SC_PAGESIZE);
}

TEST_F(HostStreams, ManyCallsInAQueueTakeLittleMemory) {
  long taken = 0;
  run_ranks(2, [&](Communicator& comm, int rank) {
    constexpr int calls = 20000;
    float value = 1, sum = 0;
    const auto call = [&] { comm.all_reduce(&value, &sum, 1, DataType::f32, ReduceOp::sum); };
    call();
    comm.synchronize();
    if (rank == 1) std::this_thread::sleep_for(200ms);  // rank 0 has called many times by then
    const long before = resident_bytes();
    for (int i = 0; i < calls; ++i) call();
    if (rank == 0) taken = resident_bytes() - before;
    comm.synchronize();
    EXPECT_EQ(sum, 2);
  });
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(taken, 80 << 20);  // sanitizers keep several times as much beside
#else
  EXPECT_LT(taken, 16 << 20);
#endif
}

}  // namespace
}  // namespace plait::test
