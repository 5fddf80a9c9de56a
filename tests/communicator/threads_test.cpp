// Several threads of a rank: each with communicators of its own, one after the other with the same,
// and, which is an error, both at once.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "support/data.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

CommunicatorOptions impatient() {
  CommunicatorOptions options;
  options.timeout = under_tsan ? 60s : 10s;
  return options;
}

constexpr std::size_t count = 1000;
constexpr std::size_t bytes = count * sizeof(int);

/// Integers in a rank's memory that its calls reduce; each rank and element has its own.
class Numbers {
 public:
  Numbers(Communicator& comm, std::uint64_t seed) : comm_(comm), array_(backend_of(comm), bytes) {
    array_.place(0, bytes);
    fill(seed);
    array_.upload({});
    backend_of(comm).synchronize(nullptr);
  }
  int* device() const { return static_cast<int*>(array_.device()); }
  std::span<int> values() { return {reinterpret_cast<int*>(array_.image()), count}; }
  int* image() { return values().data(); }
  void reduce(Communicator& comm, StreamRef stream = {}) {
    comm.all_reduce(device(), device(), count, DataType::i32, ReduceOp::sum, stream);
  }

  /// The image, for a copy to the device.
  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < count; ++i)
      values()[i] = element<int>(seed, comm_.rank(), i, ReduceOp::sum);
  }
  /// That the image is what `times` reductions have made of all ranks' fill(seed).
  void expect_sums(std::uint64_t seed, int times) {
    const auto ranks = static_cast<unsigned>(comm_.size());
    for (std::size_t i = 0; i < count; ++i) {
      auto sum = static_cast<unsigned>(expected<int>(seed, comm_.size(), i, ReduceOp::sum, 1));
      for (int time = 1; time < times; ++time) sum *= ranks;
      ASSERT_EQ(values()[i], static_cast<int>(sum)) << "element " << i << " of " << count;
    }
  }

 private:
  Communicator& comm_;
  DeviceArray array_;
};

void in_a_thread(const std::function<void()>& body) { std::thread(body).join(); }

std::size_t threads_of_this_process() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

PLAIT_FOR_RANKS(Threads, testing::Values(1, 2, 3));

/// Two threads of each rank, a communicator for each, and the default stream: which comes first is
/// not the same on all ranks.
TEST_P(Threads, WithACommunicatorEachDoNotWaitForEachOther) {
  if (target() != BackendKind::host) GTEST_SKIP() << "a GPU has one default stream for all threads";
  run_ranks(GetParam(), impatient(), [](Communicator& comm, int rank) {
    Communicator twin = comm.duplicate();
    constexpr int rounds = 8;
    std::atomic<int> made = 0;  // calls, by both
    const auto use = [&](Communicator& own, int turn) {
      const std::uint64_t seed = &own == &twin ? 2 : 1;
      Numbers numbers(own, seed);
      for (int round = 0; round < rounds; ++round) {
        while (made != 2 * round + turn) std::this_thread::yield();
        numbers.reduce(own);
        ++made;
      }
      own.copy(numbers.image(), numbers.device(), bytes);
      own.synchronize();
      numbers.expect_sums(seed, rounds);
    };
    std::thread first([&] { use(comm, rank % 2); });
    use(twin, 1 - rank % 2);
    first.join();
    comm.bootstrap().barrier();
  });
}

/// Whichever thread calls, the communicator's work on default streams is in the order of its calls,
/// and `synchronize` waits for all of it.
TEST_P(Threads, OneAfterTheOtherAreInOrder) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Numbers numbers(comm, 0), result(comm, 0);
    const Stream stream = comm.create_stream();
    for (int round = 0; round < 5; ++round) {
      const auto seed = static_cast<std::uint64_t>(round + 1);
      numbers.fill(seed);
      backend_of(comm).host_call(nullptr, [] { std::this_thread::sleep_for(5ms); });
      comm.copy(numbers.device(), numbers.image(), bytes);
      in_a_thread([&] { numbers.reduce(comm); });
      in_a_thread([&] { numbers.reduce(comm, round % 2 == 0 ? StreamRef(stream) : StreamRef()); });
      in_a_thread([&] { numbers.reduce(comm); });
      in_a_thread([&] { comm.copy(result.device(), numbers.device(), bytes); });
      comm.copy(result.image(), result.device(), bytes);
      if (round % 2 == 0) comm.synchronize();
      else in_a_thread([&] { comm.synchronize(); });
      result.expect_sums(seed, 3);
    }
    comm.bootstrap().barrier();
  });
}

/// Memory is freed, and communicators are destroyed, after what any thread has put on its default
/// stream.
TEST_P(Threads, OfWhichAnyMayFreeMemory) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    std::atomic<bool> finished = false;
    const auto work = [&](Communicator& own) {
      finished = false;
      in_a_thread([&] {
        backend_of(own).enter();  // else host_call means the default stream of device 0
        backend_of(own).host_call(nullptr, [] { std::this_thread::sleep_for(20ms); });
        own.barrier();
        backend_of(own).host_call(nullptr, [&] { finished = true; });
      });
    };
    {
      const Buffer<int> buffer = comm.allocate<int>(count);
      work(comm);
    }
    EXPECT_TRUE(finished) << "memory was freed";
    {
      Communicator twin = comm.duplicate();
      work(twin);
    }
    EXPECT_TRUE(finished) << "a communicator was destroyed";
    comm.bootstrap().barrier();
  });
}

/// A thread ends without waiting for the work that it has enqueued. The work is done nevertheless,
/// and then nothing is left of the thread.
TEST_P(Threads, ThatEndLeaveTheirWorkAndNothingElse) {
  constexpr int short_ones = under_tsan ? 50 : 500;
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    Numbers numbers(comm, 1);
    std::promise<void> open;
    in_a_thread([&] {
      backend_of(comm).enter();
      backend_of(comm).host_call(nullptr, [opened = open.get_future().share()] { opened.wait(); });
      numbers.reduce(comm);
    });
    open.set_value();  // the thread has ended, and did not wait for this
    comm.copy(numbers.image(), numbers.device(), bytes);
    comm.synchronize();
    numbers.expect_sums(1, 1);
    comm.bootstrap().barrier();
    const std::size_t before = threads_of_this_process();
    comm.bootstrap().barrier();
    for (int i = 0; i < short_ones; ++i)
      in_a_thread([&] {
        comm.barrier();
        if (i % 2 == 0) comm.synchronize();
      });
    comm.synchronize();
    comm.bootstrap().barrier();
    EXPECT_LT(threads_of_this_process(), before + 20) << "rank " << rank;
    comm.bootstrap().barrier();
  });
}

TEST_P(Threads, CaptureAndLaunchOnTheirDefaultStreams) {
  if (target() != BackendKind::host)
    GTEST_SKIP() << "the default stream of a GPU can't be captured";
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Numbers numbers(comm, 1);
    std::unique_ptr<Graph> graph;
    in_a_thread([&] {
      backend_of(comm).begin_capture(nullptr);
      numbers.reduce(comm);
      graph = backend_of(comm).end_capture(nullptr);
    });
    in_a_thread([&] {
      graph->launch(nullptr);
      comm.synchronize();
    });
    comm.copy(numbers.image(), numbers.device(), bytes);
    comm.synchronize();
    numbers.expect_sums(1, 1);
    comm.bootstrap().barrier();
  });
}

/// The end of a large group over several devices enqueues with other threads, yet on the caller's
/// default streams.
TEST_P(Threads, OfAGroupsEndUseTheCallersDefaultStreams) {
  DeviceGroup devices =
      DeviceGroup::first(GetParam(), DeviceGroupOptions{.backend = target(), .timeout = patience});
  std::promise<void> open;
  const auto opened = open.get_future().share();
  std::atomic<int> ended = 0;
  for (int rank = 0; rank < devices.size(); ++rank) {
    const DeviceScope device(backend_of(devices.device(rank)));
    backend_of(devices.device(rank)).host_call(nullptr, [opened] { opened.wait(); });
  }
  {
    const Group group;
    for (int i = 0; i < 50; ++i) devices.barrier();
  }
  for (int rank = 0; rank < devices.size(); ++rank) {
    const DeviceScope device(backend_of(devices.device(rank)));
    const auto before = devices.device(rank).progress();
    EXPECT_TRUE(std::ranges::all_of(before.blocks, [](const auto& block) {
      return block.started == 0;
    })) << "it did not wait";
    backend_of(devices.device(rank)).host_call(nullptr, [&] { ++ended; });
  }
  open.set_value();
  devices.synchronize();
  EXPECT_EQ(ended, devices.size());
}

/// Two threads inside one communicator at once: the one that comes second is told, nothing hangs,
/// and nothing is lost.
TEST_P(Threads, InsideOneCommunicatorAtOnceAreNoticed) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Communicator control = comm.duplicate();
    Numbers numbers(control, 1);  // before the stream is held: on GPUs it is the device's
    std::promise<void> inside, leave;
    // `synchronize` stays inside for as long as the stream is held.
    std::thread first([&] {
      backend_of(comm).enter();  // else this holds the default stream of device 0
      backend_of(comm).host_call(nullptr, [&, left = leave.get_future().share()] {
        inside.set_value();
        left.wait();
      });
      comm.synchronize();
    });
    inside.get_future().wait();
    const auto twice = [&](const char* call, const std::function<void()>& body) {
      const auto until = std::chrono::steady_clock::now() + patience;
      auto error = error_of(body);
      while (!error && std::chrono::steady_clock::now() < until)
        error = error_of(body);  // the other one may not be in it yet
      expect_error(error, ErrorCode::invalid_argument,
                   testing::StartsWith(fmt::format(
                       "{}: another thread is inside a call of this communicator", call)));
    };
    twice("is_symmetric", [&] {
      static_cast<void>(comm.is_symmetric(numbers.device(), bytes));
    });  // until the other is inside
    twice("all_reduce", [&] { numbers.reduce(comm); });
    twice("barrier", [&] { comm.barrier(); });
    twice("send", [&] { comm.send(numbers.device(), count, DataType::i32, 0); });
    twice("recv", [&] { comm.recv(numbers.device(), count, DataType::i32, 0); });
    twice("copy", [&] { comm.copy(numbers.device(), numbers.device(), bytes); });
    twice("allocate", [&] { static_cast<void>(comm.allocate<int>(1)); });
    twice("duplicate", [&] { static_cast<void>(comm.duplicate()); });
    twice("synchronize", [&] { comm.synchronize(); });
    twice("statistics", [&] { static_cast<void>(comm.statistics()); });
    {
      Group group;
      control.barrier();
      twice("barrier", [&] { comm.barrier(); });
      group.end();
    }
    EXPECT_FALSE(comm.async_error().has_value()) << "is for any thread";
    static_cast<void>(comm.progress());
    EXPECT_EQ(comm.rank(), control.rank());
    static_cast<void>(comm.create_stream());
    leave.set_value();
    first.join();
    numbers.reduce(comm);
    comm.copy(numbers.image(), numbers.device(), bytes);
    comm.synchronize();
    numbers.expect_sums(1, 1);  // no call that was refused was made
    comm.bootstrap().barrier();
  });
}

/// Every rank hammers from two threads: each call is made once or refused, on this rank.
TEST(ThreadsAtOnce, HammerOneCommunicator) {
  run_ranks(1, [](Communicator& comm, int) {
    Numbers numbers(comm, 1), other(comm, 2);
    std::atomic<std::size_t> made = 0, refused = 0;
    const auto hammer = [&](Numbers& own) {
      for (int i = 0; i < (under_tsan ? 2000 : 20000) || (refused == 0 && i < 10000000); ++i) {
        const auto error = error_of([&] {
          comm.all_reduce(own.device(), own.device(), count, DataType::i32, ReduceOp::sum, {},
                          {.algorithm = "oneshot_ll"});
        });
        ++(error ? refused : made);
        if (error) {
          ASSERT_THAT(error->what(), HasSubstr("another thread is inside"));
        }
      }
    };
    std::thread first([&] { hammer(numbers); });
    hammer(other);
    first.join();
    comm.copy(numbers.image(), numbers.device(), bytes);
    comm.copy(other.image(), other.device(), bytes);
    comm.synchronize();
    numbers.expect_sums(1, 1);
    other.expect_sums(2, 1);
    EXPECT_EQ(comm.statistics().calls, made);
    EXPECT_GT(refused, 0u);
  });
}

}  // namespace
}  // namespace plait::test
