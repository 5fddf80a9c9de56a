// Streams, events and graphs of the target the tests run on.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "algorithms/contract/side_stream.hpp"
#include "communicator/streams.hpp"
#include "plait/error.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;

/// Work of the stream at whose end `finished` is set.
void finish_late(Backend& backend, NativeStream stream, std::atomic<bool>& finished) {
  backend.host_call(stream, [&finished] {
    std::this_thread::sleep_for(20ms);
    finished = true;
  });
}

TEST_F(Streams, WorkRunsInOrder) {
  const NativeStream s = stream();
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) backend().host_call(s, [&order, i] { order.push_back(i); });
  backend().synchronize(s);
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(Streams, CallsReturnWhileTheStreamIsHeld) {
  const NativeStream s = stream();
  for (std::size_t i = 0; i < count; ++i) host_[i] = static_cast<int>(i);
  Gate gate;
  gate.hold(backend(), s);
  gate.wait_until_reached();
  std::atomic<bool> after = false;
  backend().copy(device_, host_, bytes, s);
  backend().copy(result_, device_, bytes, s);
  backend().host_call(s, [&] { after = true; });
  EXPECT_FALSE(after);
  EXPECT_EQ(result_[count - 1], 0);
  gate.open();
  backend().synchronize(s);
  EXPECT_TRUE(after);
  EXPECT_EQ(result_[count - 1], static_cast<int>(count - 1));
}

/// Otherwise calls on it would not be ordered after those on the earlier one.
TEST_F(Streams, OneWithTheHandleOfAnotherIsKnownForAnother) {
  std::atomic<int> done = 0;
  for (int i = 1; i <= 20; ++i) {
    NativeStream first = backend().create_stream();
    const auto identity = backend().identity(first);
    EXPECT_EQ(backend().identity(first), identity);
    backend().host_call(first, [&] {
      std::this_thread::sleep_for(2ms);
      ++done;
    });
    backend().destroy_stream(first);
    NativeStream second = backend().create_stream();
    if (backend().identity(second) == identity) {
      EXPECT_EQ(done, i) << "neither has the target told them apart nor waited";
    }
    backend().destroy_stream(second);
    backend().synchronize_device();
  }
}

TEST_F(Streams, TwoStreamsRunAtOnce) {
  const NativeStream a = stream(), b = stream();
  Gate gate;
  gate.hold(backend(), a);
  // A copy, because CUDA runs the host functions of all streams one after another.
  backend().fill(device_, 0x11, bytes, b);
  backend().copy(result_, device_, bytes, b);
  backend().synchronize(b);
  EXPECT_EQ(result_[count - 1], 0x11111111);
  gate.open();
  backend().synchronize(a);
}

TEST_F(Streams, EventsTellAndOrder) {
  const NativeStream a = stream(), b = stream();
  auto event = backend().create_event();
  Gate gate;
  gate.hold(backend(), a);
  event->record(a);
  EXPECT_FALSE(event->done());
  std::atomic<bool> after = false;
  event->wait_in(b);
  backend().host_call(b, [&] { after = true; });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(after);
  EXPECT_FALSE(event->done());
  gate.open();
  event->synchronize();
  EXPECT_TRUE(event->done());
  backend().synchronize(b);
  EXPECT_TRUE(after);
}

TEST_F(Streams, EventsMeasureTime) {
  const NativeStream s = stream();
  auto start = backend().create_event(), stop = backend().create_event();
  start->record(s);
  backend().host_call(s, [] { std::this_thread::sleep_for(30ms); });
  stop->record(s);
  stop->synchronize();
  EXPECT_GE(stop->milliseconds_since(*start), 25.0);
  EXPECT_LT(stop->milliseconds_since(*start), 5000.0);
}

TEST_F(Streams, FillAndCopy) {
  const NativeStream s = stream();
  backend().fill(device_, 0x5a, bytes, s);
  backend().copy(result_, device_, bytes, s);
  backend().synchronize(s);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(result_[i], 0x5a5a5a5a);
}

TEST_F(Streams, PinnedMemoryIsZeroed) {
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(host_[i], 0);
}

TEST_F(Streams, GraphsReplayWithWhatMemoryHoldsThen) {
  const NativeStream s = stream();
  EXPECT_FALSE(backend().is_capturing(s));
  backend().begin_capture(s);
  EXPECT_TRUE(backend().is_capturing(s));
  backend().copy(device_, host_, bytes, s);
  backend().copy(result_, device_, bytes, s);
  const auto graph = backend().end_capture(s);
  EXPECT_FALSE(backend().is_capturing(s));
  backend().synchronize(s);
  EXPECT_EQ(result_[5], 0) << "a captured copy ran";
  for (int replay = 1; replay <= 50; ++replay) {
    for (std::size_t i = 0; i < count; ++i) host_[i] = replay * static_cast<int>(i);
    graph->launch(s);
    backend().synchronize(s);
    ASSERT_EQ(result_[7], replay * 7);
  }
  const NativeStream other = stream();
  host_[7] = -1;
  graph->launch(other);
  backend().synchronize(other);
  EXPECT_EQ(result_[7], -1);
}

TEST_F(Streams, AGraphOutlivesItsLaunch) {
  const NativeStream s = stream();
  host_[3] = 33;
  backend().begin_capture(s);
  backend().copy(result_, host_, bytes, s);
  auto graph = backend().end_capture(s);
  graph->launch(s);
  backend().synchronize(s);
  graph.reset();
  EXPECT_EQ(result_[3], 33);
}

/// A call's use of a side stream: `beside` and `main` in between, both before what follows.
void run_beside(Backend& backend, SideStreams& sides, NativeStream s,
                const std::function<void(NativeStream)>& beside,
                const std::function<void()>& main) {
  SideStream& side = sides.of(backend.is_capturing(s));
  beside(side.fork(s));
  main();
  side.join(s);
}

TEST_F(Streams, ASideStreamRunsBetweenForkAndJoin) {
  SideStreams sides(backend_);
  const NativeStream a = stream(), b = stream();
  int* other = pinned();
  void* second = backend().allocate(bytes);
  const auto enqueue = [&](NativeStream s) {
    backend().copy(device_, host_, bytes, s);
    for (int round = 0; round < 2; ++round)
      run_beside(
          backend(), sides, s,
          [&](NativeStream side) { backend().copy(second, device_, bytes, side); },
          [&] { backend().copy(result_, device_, bytes, s); });
    backend().copy(other, second, bytes, s);
  };
  const auto expect = [&](int value, const char* what) {
    EXPECT_EQ(result_[count - 1], value) << what;
    EXPECT_EQ(other[count - 1], value) << what;
  };
  const auto run = [&](int value, const char* what, const std::function<void()>& work,
                       NativeStream s) {
    std::fill_n(host_, count, value);
    work();
    backend().synchronize(s);
    expect(value, what);
  };
  run(
      1, "on a stream", [&] { enqueue(a); }, a);
  run(
      2, "on another", [&] { enqueue(b); }, b);

  backend().begin_capture(a);
  enqueue(a);
  std::fill_n(host_, count, 3);
  enqueue(b);
  enqueue(a);
  const auto graph = backend().end_capture(a);
  backend().synchronize(b);  // CUDA does not let the capturing thread wait earlier
  expect(3, "while another is captured");
  for (int replay = 4; replay < 20; ++replay) {
    run(
        replay, "replayed", [&] { graph->launch(a); }, a);
    run(
        -replay, "after a replay", [&] { enqueue(a); }, a);
  }
  backend().deallocate(second);
}

/// There would be no way to tell when a graph needs the function no more.
TEST_F(Streams, GpusCaptureNoHostFunctions) {
  if (target() == BackendKind::host) GTEST_SKIP() << "the host target captures them";
  const NativeStream s = stream();
  backend().begin_capture(s);
  EXPECT_THROW(backend().host_call(s, [] {}), Error);
  static_cast<void>(backend().end_capture(s));
}

TEST_F(Streams, TheDefaultStreamIsNull) {
  host_[9] = 99;
  backend().copy(device_, host_, bytes, nullptr);
  backend().copy(result_, device_, bytes, nullptr);
  backend().synchronize(nullptr);
  EXPECT_EQ(result_[9], 99);
}

TEST_F(Streams, HandlesNameOneStreamUnlessItIsEachThreadsOwn) {
  EXPECT_TRUE(backend().names_one_stream(nullptr));
  EXPECT_TRUE(backend().names_one_stream(stream()));
  if (target() == BackendKind::host) return;
  EXPECT_FALSE(backend().names_one_stream(
      reinterpret_cast<NativeStream>(2)));  // cudaStreamPerThread, hipStreamPerThread
}

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
  finish_late(backend(), s, finished);
  backend().destroy_stream(s);
  // CUDA returns at once and lets the work finish by itself. The other targets wait for it.
  EXPECT_TRUE(target() == BackendKind::cuda ? comes_true([&] { return finished.load(); })
                                            : finished.load());
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
    finish_late(backend(), s, finished);
    again->synchronize_device();
    EXPECT_TRUE(finished);
  }
}

/// GPUs refuse to wait while a stream is captured.
TEST_F(Streams, SynchronizeDeviceWaitsForWorkBeforeACapture) {
  if (target() != BackendKind::host) GTEST_SKIP() << "GPUs refuse to wait in a capture";
  const NativeStream s = stream();
  std::atomic<bool> finished = false;
  finish_late(backend(), s, finished);
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
  finish_late(backend(), slow, finished);
  backend().synchronize_device();
  EXPECT_TRUE(finished);
  EXPECT_THROW(backend().synchronize(bad), Error) << "a wait for the stream reports it";
  backend().synchronize(bad);
}

}  // namespace
}  // namespace plait::test
