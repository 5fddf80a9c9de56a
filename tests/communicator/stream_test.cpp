// Streams, events and graphs of the target the tests run on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/contract/side_stream.hpp"
#include "backends/backend.hpp"
#include "communicator/stream_order.hpp"
#include "plait/error.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;

/// Holds a stream until it is opened.
class Gate {
 public:
  void hold(Backend& backend, NativeStream stream) {
    backend.host_call(stream, [this] {
      reached_.set_value();
      open_.get_future().wait();
    });
  }
  void wait_until_reached() { reached_.get_future().wait(); }
  void open() { open_.set_value(); }

 private:
  std::promise<void> reached_, open_;
};

class Streams : public testing::Test {
 protected:
  static constexpr std::size_t count = 1000;
  static constexpr std::size_t bytes = count * sizeof(int);

  Streams() {
    backend().bind();
    host_ = pinned();
    result_ = pinned();
    device_ = backend().allocate(bytes);
  }
  ~Streams() override {
    backend().synchronize_device();
    for (int* memory : all_) backend().deallocate_pinned(memory);
    backend().deallocate(device_);
    for (NativeStream stream : streams_) backend().destroy_stream(stream);
  }
  Backend& backend() { return *backend_; }
  NativeStream stream() { return streams_.emplace_back(backend().create_stream()); }
  int* pinned() { return all_.emplace_back(static_cast<int*>(backend().allocate_pinned(bytes))); }

  std::shared_ptr<Backend> backend_ = open_backend(test::target(), 0);
  std::vector<NativeStream> streams_;
  std::vector<int*> all_;
  int *host_ = nullptr, *result_ = nullptr;
  void* device_ = nullptr;
};

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

/// Streams that are numbers, of which some are captured, as on a GPU; those from 100 on are default
/// streams of threads. Events say what happens.
class Captures final : public test::ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  static std::uint64_t number(NativeStream stream) {
    return reinterpret_cast<std::uintptr_t>(stream);
  }
  bool is_per_thread(NativeStream stream) const noexcept override { return number(stream) >= 100; }
  void synchronize(NativeStream stream) override {
    waits.push_back("host waits for " + std::to_string(number(stream)));
  }
  std::uint64_t identity(NativeStream stream) override {
    if (is_capturing(stream))
      throw Error(ErrorCode::backend,
                  "not of a stream that is being captured");  // as cudaStreamGetId
    return number(stream);
  }
  bool captures_spread() const noexcept override { return true; }
  bool is_capturing(NativeStream stream) override { return captured.contains(number(stream)); }
  std::uint64_t capture(NativeStream stream) override { return captured.at(number(stream)); }
  std::unique_ptr<Event> create_event(bool) override {
    struct Noted final : Event {
      explicit Noted(std::vector<std::string>& notes) : notes_(notes) {}
      void record(NativeStream stream) override {
        last_ = std::to_string(reinterpret_cast<std::uintptr_t>(stream));
      }
      bool done() override { return false; }
      void synchronize() override { notes_.push_back("host waits for an event of " + last_); }
      void wait_in(NativeStream stream) override {
        notes_.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + " waits for " +
                         last_);
      }
      double milliseconds_since(const Event&) const override { return 0; }

     private:
      std::vector<std::string>& notes_;
      std::string last_ = "nothing";
    };
    return std::make_unique<Noted>(waits);
  }

  std::map<std::uint64_t, std::uint64_t> captured;  // stream -> capture
  std::vector<std::string> waits;
};

/// A call waits for the one before on another stream: captured ones for those of the same capture,
/// others for those that are not captured.
TEST(StreamOrder, IsThatOfTheCalls) {
  const auto backend = std::make_shared<Captures>(open_backend(test::target(), 0));
  StreamOrder order(backend);
  const auto waits = [&](std::uintptr_t stream) {
    backend->waits.clear();
    const auto handle =
        reinterpret_cast<NativeStream>(stream);  // NOLINT(performance-no-int-to-ptr)
    EXPECT_EQ(order.enter(handle), backend->captured.contains(stream));
    order.leave(handle);
    return backend->waits;
  };
  const auto nothing = testing::IsEmpty();
  const auto only = [](const char* wait) { return testing::ElementsAre(wait); };
  EXPECT_THAT(waits(1), nothing);
  EXPECT_THAT(waits(1), nothing);
  EXPECT_THAT(waits(2), only("2 waits for 1"));
  backend->captured = {{3, 100}, {4, 100}, {5, 200}};
  EXPECT_THAT(waits(3), nothing) << "the first call of a capture";
  EXPECT_THAT(waits(4), only("4 waits for 3"));
  EXPECT_THAT(waits(4), nothing);
  EXPECT_THAT(waits(1), only("1 waits for 2")) << "not captured";
  EXPECT_THAT(waits(3), only("3 waits for 4"));
  EXPECT_THAT(waits(5), nothing) << "another capture";
  EXPECT_THAT(waits(4), nothing) << "another one again: neither graph knows when the other runs";
  backend->captured = {{3, 300}};
  EXPECT_THAT(waits(3), nothing) << "a later capture of a stream";
  backend->captured.clear();
  EXPECT_THAT(waits(3), only("3 waits for 1"));
}

/// Calls and copies of a communicator on default streams are in order, whichever threads the
/// streams belong to.
TEST(StreamOrder, TakesTheDefaultStreamsOfThreadsForOne) {
  const auto backend = std::make_shared<Captures>(open_backend(test::target(), 0));
  StreamOrder order(backend);
  const auto handle = [](std::uintptr_t stream) {
    return reinterpret_cast<NativeStream>(stream);
  };  // NOLINT(performance-no-int-to-ptr)
  const auto after = [&](const std::function<void()>& act) {
    backend->waits.clear();
    act();
    return std::exchange(backend->waits, {});
  };
  const auto call = [&](std::uintptr_t stream) {
    return after([&] {
      order.enter(handle(stream));
      order.leave(handle(stream));
    });
  };
  const auto copy = [&](std::uintptr_t stream) {
    return after([&] {
      order.enter_copy(handle(stream));
      order.leave_copy(handle(stream));
    });
  };
  const auto synchronize = [&](std::uintptr_t stream) {
    return after([&] { order.synchronize(handle(stream)); });
  };
  const auto nothing = testing::IsEmpty();
  EXPECT_THAT(copy(1), nothing);
  EXPECT_THAT(call(100), nothing);
  EXPECT_THAT(copy(100), nothing);
  EXPECT_THAT(call(101), testing::ElementsAre("101 waits for 100", "101 waits for 100"))
      << "the call, and the copy";
  EXPECT_THAT(copy(1), nothing) << "a copy on another stream has no order";
  EXPECT_THAT(call(1), testing::ElementsAre("1 waits for 101")) << "a call has";
  EXPECT_THAT(copy(102), testing::ElementsAre("102 waits for 101", "102 waits for 100"))
      << "but not with stream 1";
  EXPECT_THAT(call(102), testing::ElementsAre("102 waits for 1"));
  EXPECT_THAT(synchronize(102), testing::ElementsAre("host waits for 102"));
  EXPECT_THAT(synchronize(103),
              testing::ElementsAre("host waits for 103", "host waits for an event of 102",
                                   "host waits for an event of 102"));
  EXPECT_THAT(call(1), testing::ElementsAre("1 waits for 102"));
  EXPECT_THAT(synchronize(1), testing::ElementsAre("host waits for 1"));
  EXPECT_THAT(synchronize(102), testing::ElementsAre("host waits for 102"))
      << "and not for stream 1";
}

/// There would be no way to tell when a graph needs the function no more.
TEST_F(Streams, GpusCaptureNoHostFunctions) {
  if (test::target() == BackendKind::host) GTEST_SKIP() << "the host target captures them";
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
  if (test::target() == BackendKind::host) return;
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
  backend().host_call(s, [&] {
    std::this_thread::sleep_for(20ms);
    finished = true;
  });
  backend().destroy_stream(s);
  // CUDA returns at once and lets the work finish by itself. The other targets wait for it.
  const auto late = std::chrono::steady_clock::now() + test::patience;
  while (test::target() == BackendKind::cuda && !finished &&
         std::chrono::steady_clock::now() < late)
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(finished);
}

/// Not for later work: another thread may never stop giving the stream work.
TEST_F(Streams, SynchronizeWaitsForWhatTheStreamHasBeenGiven) {
  const NativeStream s = stream();
  std::atomic<int> given = 0, done = 0;
  std::atomic<bool> stop = false;
  const auto late = std::chrono::steady_clock::now() + test::patience;
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
  if (test::target() != BackendKind::host) GTEST_SKIP() << "GPUs refuse to wait in a capture";
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
  if (test::target() != BackendKind::host) GTEST_SKIP() << "a GPU's host functions may not throw";
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

/// Streams of the host target, whose tasks run on a thread of their own or on the one that waits.
class HostStreams : public Streams {
 protected:
  void SetUp() override {
    if (test::target() != BackendKind::host) GTEST_SKIP() << "is about the host target's streams";
  }
  /// As a program that calls and waits, over and over, so that the stream expects it.
  void wait_often(NativeStream s) {
    for (int i = 0; i < 100; ++i) {
      backend().host_call(s, [] {});
      backend().synchronize(s);
    }
  }
  /// True if the flag is set in time although no thread waits for the stream.
  bool comes_true(const std::atomic<bool>& flag) {
    const auto late = std::chrono::steady_clock::now() + test::patience;
    while (!flag && std::chrono::steady_clock::now() < late) std::this_thread::sleep_for(100us);
    return flag;
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
      EXPECT_TRUE(comes_true(ran)) << idle.count() << " ms";
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
  test::run_ranks(2, [&](Communicator& comm, int rank) {
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

TEST(Backends, SayWhyTheyHaveNoDevice) {
  for (const BackendKind kind : {BackendKind::host, BackendKind::cuda, BackendKind::hip}) {
    if (device_count(kind) > 0) {
      EXPECT_TRUE(is_built(kind));
      EXPECT_EQ(why_no_device(kind), "");
    } else {
      EXPECT_NE(why_no_device(kind), "");
      EXPECT_THROW(open_backend(kind, 0), Error);
    }
  }
  if (test::target() == BackendKind::host) return;  // every rank of the host has its own device
  EXPECT_THROW(open_backend(test::target(), 1000), Error);
  EXPECT_THROW(open_backend(test::target(), -1), Error);
}

TEST(Backends, HaveAKernelForEveryTypeOfEveryAlgorithm) {
  const auto backend = open_backend(test::target(), 0);
  for (const char* family : {"copy_engine", "oneshot_ll", "recursive_doubling", "ring", "twoshot"})
    for (int type = 0; type < data_type_count; ++type)
      EXPECT_NE(backend->find_kernel(family, static_cast<DataType>(type)), nullptr)
          << family << " " << name_of(static_cast<DataType>(type));
  EXPECT_EQ(backend->find_kernel("no such family", DataType::f32), nullptr);
}

}  // namespace
}  // namespace plait
