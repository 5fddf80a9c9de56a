// Progress of a communicator's blocks, read while they run.
#include "plait/progress.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/host_log.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr unsigned blocks = 3;

void call(Communicator& comm, Arena& arena, StreamRef stream = {}) {
  void* data = arena.symmetric_send.device();
  comm.all_reduce(data, data, 1000, DataType::i32, ReduceOp::max, stream,
                  {.algorithm = "oneshot_ll", .blocks = blocks});
}

/// Looks, and nothing else, until it is as wanted.
Progress wait_until(const Communicator& comm, const std::function<bool(const Progress&)>& wanted) {
  const auto until = Clock::now() + patience;
  Progress progress = comm.progress();
  while (!wanted(progress) && Clock::now() < until) {
    std::this_thread::sleep_for(1ms);
    progress = comm.progress();
  }
  EXPECT_TRUE(wanted(progress)) << progress.started << " started, " << progress.completed
                                << " completed";
  return progress;
}
std::function<bool(const Progress&)> all_completed(std::uint64_t calls) {
  return [calls](const Progress& progress) { return progress.completed >= calls * blocks; };
}

/// When so many are completed and their kernels over: a count may be seen before the time that was
/// noted with it.
Progress at_rest(Communicator& comm, std::uint64_t calls) {
  wait_until(comm, all_completed(calls));
  const DeviceScope device(backend_of(comm));
  backend_of(comm).synchronize_device();
  return comm.progress();
}

void expect_counts(const Progress& progress, std::uint64_t calls) {
  EXPECT_EQ(progress.blocks.size(), blocks);
  for (const Progress::Block& block : progress.blocks) {
    EXPECT_EQ(block.started, calls);
    EXPECT_EQ(block.completed, calls);
    EXPECT_GT(block.started_at, 0ns);
    EXPECT_LE(block.started_at, block.completed_at);
  }
  EXPECT_EQ(progress.started, calls * blocks);
  EXPECT_EQ(progress.completed, calls * blocks);
}

PLAIT_FOR_RANKS(ProgressOf, testing::Values(1, 2, 3));

TEST_P(ProgressOf, EveryBlockOfEveryCallIsCounted) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    EXPECT_TRUE(comm.progress().blocks.empty());
    std::uint64_t calls = 0;
    for (const std::uint64_t more : {1u, 20u, 3u}) {
      for (std::uint64_t i = 0; i < more; ++i) call(comm, arena);
      calls += more;
      expect_counts(at_rest(comm, calls), calls);
    }
    comm.bootstrap().barrier();
  });
}

TEST_P(ProgressOf, TimesRise) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    Progress before;
    for (std::uint64_t calls = 1; calls <= 5; ++calls) {
      const auto begin = Clock::now().time_since_epoch();
      call(comm, arena);
      const Progress now = at_rest(comm, calls);
      const auto end = Clock::now().time_since_epoch();
      ASSERT_EQ(now.blocks.size(), blocks);
      for (unsigned b = 0; b < blocks; ++b) {
        EXPECT_LE(now.blocks[b].started_at, now.blocks[b].completed_at);
        if (calls > 1) {
          EXPECT_LE(before.blocks[b].completed_at, now.blocks[b].started_at);
        }
        if (comm.backend_kind() != BackendKind::host) continue;  // another clock
        EXPECT_LE(begin, now.blocks[b].started_at);
        EXPECT_LE(now.blocks[b].completed_at, end);
      }
      before = now;
    }
    comm.bootstrap().barrier();
  });
}

TEST_P(ProgressOf, ReplaysAreCounted) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    const DeviceScope device(backend_of(comm));
    Stream stream = comm.create_stream();
    backend_of(comm).begin_capture(stream.native());
    call(comm, arena, stream);
    EXPECT_TRUE(comm.progress().blocks.empty()) << "and a capture is no obstacle";
    call(comm, arena, stream);
    const auto graph = backend_of(comm).end_capture(stream.native());
    for (int i = 0; i < 3; ++i) graph->launch(stream.native());
    expect_counts(at_rest(comm, 6), 6);
    comm.synchronize(stream);
    comm.bootstrap().barrier();
  });
}

TEST_P(ProgressOf, AnyThreadMayLook) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    std::atomic<bool> done = false;
    std::vector<std::thread> lookers;
    for (int i = 0; i < 2; ++i)
      lookers.emplace_back([&] {
        std::uint64_t before = 0;
        while (!done) {
          const Progress now = comm.progress();
          EXPECT_LE(now.completed, now.started);
          EXPECT_LE(before, now.completed);
          before = now.completed;
        }
      });
    for (int i = 0; i < 100; ++i) call(comm, arena);
    comm.synchronize();
    done = true;
    for (std::thread& looker : lookers) looker.join();
    expect_counts(comm.progress(), 100);
    comm.bootstrap().barrier();
  });
}

TEST_P(ProgressOf, CanBeTurnedOff) {
  const ScopedEnvironment off("PLAIT_PROGRESS", "0");
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    EXPECT_TRUE(check(comm, arena, {.algorithm = "oneshot_ll", .count = 1000}));
    const Progress progress = comm.progress();
    EXPECT_TRUE(progress.blocks.empty());
    EXPECT_EQ(progress.started, 0u);
    comm.bootstrap().barrier();
  });
}

TEST_P(ProgressOf, SettingsAreChecked) {
  const auto refused = [&] {
    return error_of([&] { run_ranks(GetParam(), [](Communicator&, int) {}); });
  };
  {
    const ScopedEnvironment odd("PLAIT_PROGRESS", "2");
    expect_error(refused(), ErrorCode::invalid_argument, HasSubstr("PLAIT_PROGRESS=\"2\""));
  }
  const ScopedEnvironment off("PLAIT_PROGRESS", "0"), trace("PLAIT_TRACE", "trace.json");
  expect_error(refused(), ErrorCode::invalid_argument, HasSubstr("PLAIT_TRACE"));
}

/// Rank 1 makes its third call only after rank 0 has seen where its own hangs.
TEST(Progress, ShowsWhereAKernelWaits) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, patient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    for (int i = 0; i < 2; ++i) call(comm, arena);
    wait_until(comm, all_completed(2));
    if (rank == 0) {
      call(comm, arena);
      const auto hangs = [](const Progress& p) {
        return !p.blocks.empty() && p.blocks[0].started == 3;
      };
      wait_until(comm, hangs);
      std::this_thread::sleep_for(20ms);
      const Progress waiting = comm.progress();
      EXPECT_EQ(waiting.blocks.at(0).started, 3u);
      EXPECT_EQ(waiting.blocks.at(0).completed, 2u);
      EXPECT_GE(waiting.blocks.at(0).started_at, waiting.blocks.at(0).completed_at);
      for (const Progress::Block& block : waiting.blocks)
        EXPECT_GE(block.completed, 2u);  // one without data waits for no peer
    }
    comm.bootstrap().barrier();
    if (rank == 1) call(comm, arena);
    expect_counts(at_rest(comm, 3), 3);
    comm.bootstrap().barrier();
  });
}

TEST(Progress, LaterBlocksAndOtherThreadsAreNotCounted) {
  WrittenLog written;
  written.start(counted_blocks);
  written.end(1, counted_blocks, counted_blocks + 1);
  written.start(5, 1);
  written.end(1, 5, 6, 1);
  EXPECT_TRUE(written.log().read().blocks.empty());
  written.start(counted_blocks - 1);
  const Progress progress = written.log().read();
  ASSERT_EQ(progress.blocks.size(), counted_blocks);
  EXPECT_EQ(progress.blocks.back().started, 1u);
  EXPECT_EQ(progress.started, 1u);
  EXPECT_EQ(progress.completed, 0u);
}

TEST(Progress, NoMemoryNoLog) {
  WrittenLog written;
  const Watch off;
  log_start<host::LogOps>(off, 0, 0);
  log_end<host::LogOps>(off, 0, 1, 0);
  EXPECT_TRUE(written.log().read().blocks.empty());
}

}  // namespace
}  // namespace plait::test
