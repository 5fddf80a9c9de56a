// Groups whose work goes through a small FIFO: nothing is lost, and no caller waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "groups/messages.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

/// A FIFO for two groups, while the stream stands still: a caller waits once it is full, goes on
/// when there is room, and nothing is lost.
TEST(SmallFifo, HoldsBackItsCallers) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "8K");
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  constexpr std::size_t size = 75;
  constexpr Messages::Value rounds = 40;
  run_ranks(2, [&](Communicator& comm, int) {
    EXPECT_EQ(comm.statistics().fifo_bytes, 8192u);
    Arena arena(comm);
    Messages messages(comm, arena.send, arena.recv, std::vector<std::size_t>(size, 2));
    const Stream stream = comm.create_stream();
    messages.fill(3, stream);
    std::atomic<bool> open = false;
    std::atomic<int> ended = 0;
    backend_of(comm).host_call(stream.native(), [&] {
      while (!open) std::this_thread::yield();
    });
    std::thread opener([&] {
      std::this_thread::sleep_for(100ms);
      EXPECT_GE(ended.load(), 2);
      EXPECT_LE(ended.load(), 3) << "the queue has no room for that many";
      open = true;
    });
    for (Messages::Value round = 0; round < rounds; ++round) {
      Group group;
      messages.call_all(stream);
      group.end();
      ++ended;
    }
    opener.join();
    messages.expect_right(stream);
    const Statistics statistics = comm.statistics();
    EXPECT_EQ(statistics.in_fifo.items, size * rounds);
    EXPECT_GE(statistics.fifo_waits, 1u);
  });
}

/// Every item of very many, through a FIFO that goes round all the time: each doubles its number.
TEST(SmallFifo, EveryItemArrives) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "16K");
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  constexpr std::size_t size = 250;
  constexpr int rounds = 40, repeats = under_tsan ? 1 : 10;  // 100,000 items
  run_ranks(2, [&](Communicator& comm, int) {
    Buffer<std::uint64_t> data = comm.allocate<std::uint64_t>(size);
    std::vector<std::uint64_t> host(size);
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (std::size_t i = 0; i < size; ++i) host[i] = i + 1;
      comm.copy(data.data(), host.data(), size * sizeof(std::uint64_t));
      for (int round = 0; round < rounds; ++round) {
        const Group group;
        for (std::size_t i = 0; i < size; ++i)
          comm.all_reduce(data.data() + i, data.data() + i, 1, DataType::u64, ReduceOp::sum);
      }
      comm.copy(host.data(), data.data(), size * sizeof(std::uint64_t));
      comm.synchronize();
      for (std::size_t i = 0; i < size; ++i)
        ASSERT_EQ(host[i], (i + 1) << rounds) << "message " << i;
    }
    EXPECT_EQ(comm.statistics().in_fifo.items, size * rounds * repeats);
  });
}

/// One thread for all ranks: that of the first must not wait for room before the others have their
/// calls.
TEST(SmallFifo, OneThreadForSeveralRanks) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "4K");
  constexpr int ranks = 3;
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  constexpr std::size_t size = 300;
  auto bootstraps = make_thread_bootstraps(ranks);
  std::array<std::optional<Communicator>, ranks> comms;
  std::array<Buffer<int>, ranks> data;
  const auto at = [](auto& all, int rank) -> auto& { return all[static_cast<std::size_t>(rank)]; };
  on_threads(ranks, [&](int rank) {
    CommunicatorOptions options = test_options();
    if (target() != BackendKind::host) options.device = rank;
    at(comms, rank).emplace(Communicator::create(std::move(at(bootstraps, rank)), options));
    at(data, rank) = at(comms, rank)->allocate<int>(size);
    std::vector<int> values(size);
    for (std::size_t i = 0; i < size; ++i) values[i] = element<int>(1, rank, i, ReduceOp::sum);
    at(comms, rank)->copy(at(data, rank).data(), values.data(), size * sizeof(int));
    at(comms, rank)->synchronize();
  });
  {
    Group group;
    for (std::size_t i = 0; i < size; ++i)
      for (int rank = 0; rank < ranks; ++rank) {
        int* const one = at(data, rank).data() + i;
        at(comms, rank)->all_reduce(one, one, 1, DataType::i32, ReduceOp::sum);
      }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> values(size);
    at(comms, rank)->copy(values.data(), at(data, rank).data(), size * sizeof(int));
    at(comms, rank)->synchronize();
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_EQ(values[i], expected<int>(1, ranks, i, ReduceOp::sum, 1)) << "message " << i;
    EXPECT_GT(at(comms, rank)->statistics().in_fifo.launches, 1u);
  }
  on_threads(ranks, [&](int rank) {
    at(data, rank) = {};
    at(comms, rank).reset();
  });
}

/// The work of two communicators on one stream has the same order on all ranks. Otherwise each
/// would wait behind the other.
TEST(SmallFifo, TwoCommunicatorsOnOneStream) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "4K");
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, [&](Communicator& comm, int) {
    constexpr std::size_t size = 300;
    Communicator other = comm.duplicate();
    Arena arena(comm);
    Messages messages(comm, arena.send, arena.recv, std::vector<std::size_t>(2 * size, 2));
    const Stream stream = comm.create_stream();
    for (Messages::Value round = 0; round < 10; ++round) {
      messages.fill(round, stream);
      {
        Group group;
        for (std::size_t m = 0; m < size; ++m) {
          messages.call(m, stream);
          other.all_reduce(messages.send(size + m), messages.recv(size + m), 2, DataType::u64,
                           ReduceOp::sum, stream);
        }
      }
      messages.expect_right(stream);
    }
    other.synchronize(stream);
  });
}

TEST(SmallFifo, SizesThatAreNone) {
  for (const char* bad : {"3000", "1K", "12K", "much"}) {
    const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", bad);
    const auto error = error_of([] { run_ranks(1, [](Communicator&, int) {}); });
    expect_error(error, ErrorCode::invalid_argument,
                 testing::AllOf(HasSubstr("PLAIT_WORK_FIFO_BYTES"), HasSubstr(bad)));
  }
}

/// A caller that waits for room hears of an abort.
TEST(SmallFifo, AnAbortEndsTheWait) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "8K");
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, patient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    Messages messages(comm, arena.send, arena.recv, std::vector<std::size_t>(80, 9));
    comm.bootstrap().barrier();
    std::thread other;
    if (rank == 1) {
      std::this_thread::sleep_for(100ms);  // never calls
      comm.abort("rank 1 has better things to do");
    } else {
      const auto start = Clock::now();
      const auto error = error_of([&] {
        for (;;) {
          Group group;
          messages.call_all();
        }
      });
      expect_error(error, ErrorCode::aborted, HasSubstr("better things"));
      EXPECT_LT(Clock::now() - start, promised);
    }
    static_cast<void>(heard(comm));
  });
}

}  // namespace
}  // namespace plait::test
