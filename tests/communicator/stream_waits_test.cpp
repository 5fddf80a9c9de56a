// Waits for one stream or for all of a device: the work that has ended when they return.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "communicator/streams.hpp"
#include "plait/error.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

TEST_F(Streams, SynchronizeDeviceWaitsForAllStreams) {
  std::atomic<int> finished = 0;
  for (int i = 0; i < 4; ++i) {
    const NativeStream s = stream();
    backend().host_call(s, [&] {
      std::this_thread::sleep_for(10ms);
      ++finished;
    });
  }
  backend().synchronize_device();
  EXPECT_EQ(finished, 4);
}

TEST_F(Streams, DestroyingAStreamFinishesItsWork) {
  std::atomic<bool> finished = false;
  const NativeStream s = backend().create_stream();
  backend().host_call(s, [&] {
    std::this_thread::sleep_for(20ms);
    finished = true;
  });
  backend().destroy_stream(s);
  // CUDA returns at once and lets the work finish by itself. The other targets wait for it.
  const auto late = std::chrono::steady_clock::now() + patience;
  while (target() == BackendKind::cuda && !finished && std::chrono::steady_clock::now() < late)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(finished);
}

/// Not for later work: another thread may never stop giving the stream work.
TEST_F(Streams, SynchronizeWaitsForWhatTheStreamHasBeenGiven) {
  const NativeStream s = stream();
  std::atomic<int> given = 0, done = 0;
  std::atomic<bool> stop = false;
  const auto late = std::chrono::steady_clock::now() + patience;
  constexpr int most = 100;  // on the stream at once, so that it never runs empty
  std::thread other([&] {
    while (!stop && std::chrono::steady_clock::now() < late) {
      while (given - done > most) std::this_thread::sleep_for(1ms);
      ++given;
      backend().host_call(s, [&] {
        std::this_thread::sleep_for(1ms);
        ++done;
      });
    }
  });
  while (given < most) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) {
    const int before = given - 1;  // the last may be on its way
    backend().synchronize(s);
    EXPECT_GE(done, before);
  }
  EXPECT_LT(std::chrono::steady_clock::now(), late);
  stop = true;
  other.join();
  backend().synchronize(s);
}

TEST_F(Streams, SynchronizeDeviceWaitsForTheStreamsOfAllBackends) {
  const auto again = backend().again();
  for (const NativeStream s : {stream(), NativeStream{}}) {
    std::atomic<bool> finished = false;
    backend().host_call(s, [&] {
      std::this_thread::sleep_for(20ms);
      finished = true;
    });
    again->synchronize_device();
    EXPECT_TRUE(finished);
  }
}

/// GPUs refuse to wait while a stream is captured.
TEST_F(Streams, SynchronizeDeviceWaitsForWorkBeforeACapture) {
  if (target() != BackendKind::host) GTEST_SKIP() << "GPUs refuse to wait in a capture";
  const NativeStream s = stream();
  std::atomic<bool> finished = false;
  backend().host_call(s, [&] {
    std::this_thread::sleep_for(20ms);
    finished = true;
  });
  backend().begin_capture(s);
  backend().synchronize_device();
  EXPECT_TRUE(finished);
  backend().end_capture(s);
}

/// A GPU's host functions may not throw.
TEST_F(Streams, SynchronizeDeviceWaitsForAllWhatEverIsThrown) {
  if (target() != BackendKind::host) GTEST_SKIP() << "a GPU's host functions may not throw";
  const NativeStream bad = stream(), slow = stream();
  std::atomic<bool> finished = false;
  backend().host_call(bad, [] { throw Error(ErrorCode::backend, "a task's"); });
  backend().host_call(slow, [&] {
    std::this_thread::sleep_for(20ms);
    finished = true;
  });
  backend().synchronize_device();
  EXPECT_TRUE(finished);
  EXPECT_THROW(backend().synchronize(bad), Error) << "a wait for the stream reports it";
  backend().synchronize(bad);
}

}  // namespace
}  // namespace plait::test
