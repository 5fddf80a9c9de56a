// Communicators, their memory, their life and their settings.
#include "plait/communicator.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/error.hpp"
#include "support/data.hpp"
#include "support/device_array.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"
#include "symm_mem/window.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

PLAIT_FOR_RANKS(Communicators, testing::Values(1, 2, 3, 4));

TEST_P(Communicators, KnowWhoTheyAre) {
  run_ranks(GetParam(), [&](Communicator& comm, int rank) {
    EXPECT_EQ(comm.rank(), rank);
    EXPECT_EQ(comm.size(), GetParam());
    EXPECT_EQ(comm.backend_kind(), target());
    EXPECT_THAT(comm.describe(), HasSubstr(fmt::format("rank {} of {}", rank, GetParam())));
    EXPECT_THAT(comm.describe(), HasSubstr(std::string(name_of(target()))));
    EXPECT_FALSE(comm.async_error().has_value());
  });
}

TEST_P(Communicators, SymmetricMemoryIsZeroedAndReachable) {
  run_ranks(GetParam(), [](Communicator& comm, int rank) {
    constexpr std::size_t count = 5000;
    const Buffer<int> buffer = comm.allocate<int>(count);
    Backend& backend = backend_of(comm);
    const auto copy = [&](void* to, const void* from, std::size_t bytes) {
      backend.copy(to, from, bytes, nullptr);
      backend.synchronize(nullptr);
    };
    std::vector<int> mine(count, -1);
    copy(mine.data(), buffer.data(), count * sizeof(int));
    EXPECT_EQ(mine, std::vector<int>(count, 0));
    comm.bootstrap().barrier();
    // Writes its own number into its place in every peer's copy.
    for (int peer = 0; peer < comm.size(); ++peer)
      copy(buffer.window()->peer(peer, static_cast<std::size_t>(rank) * sizeof(int)), &rank,
           sizeof rank);
    comm.bootstrap().barrier();
    copy(mine.data(), buffer.data(), count * sizeof(int));
    for (int peer = 0; peer < comm.size(); ++peer)
      EXPECT_EQ(mine[static_cast<std::size_t>(peer)], peer);
    EXPECT_EQ(static_cast<void*>(buffer.window()->peer(rank)), static_cast<void*>(buffer.data()));
    comm.bootstrap().barrier();
  });
}

TEST_P(Communicators, FindSymmetricMemory) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Buffer<std::byte> buffer = comm.allocate<std::byte>(1000);
    const std::byte* data = buffer.data();
    EXPECT_TRUE(comm.is_symmetric(data, 1000));
    EXPECT_TRUE(comm.is_symmetric(data + 999, 1));
    EXPECT_FALSE(comm.is_symmetric(data + 999, 2));
    EXPECT_FALSE(comm.is_symmetric(data - 1, 1));
    int local = 0;
    EXPECT_FALSE(comm.is_symmetric(&local, sizeof local));
    EXPECT_FALSE(comm.is_symmetric(nullptr, 0));
    const Buffer<std::byte> nothing = comm.allocate<std::byte>(0);
    EXPECT_EQ(nothing.size(), 0u);

    Buffer<std::byte> other = comm.allocate<std::byte>(10);
    std::byte* const place = other.data();
    const Buffer<std::byte> owner = std::move(other);
    EXPECT_EQ(owner.data(), place);
    EXPECT_EQ(owner.size(), 10u);
    // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): the test's subject
    EXPECT_TRUE(other.data() == nullptr && other.size() == 0) << "what was moved from is empty";
  });
}

TEST_P(Communicators, MemoryIsGivenBack) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    for (int i = 0; i < 100; ++i) {
      Buffer<float> buffer = comm.allocate<float>(1000 + static_cast<std::size_t>(i));
      ASSERT_TRUE(comm.is_symmetric(buffer.data(), buffer.size() * sizeof(float)));
      const float* gone = buffer.data();
      buffer = {};
      EXPECT_FALSE(comm.is_symmetric(gone, 1)) << "found after it was freed";
    }
  });
}

TEST_P(Communicators, SeveralAtOnceDoNotDisturbEachOther) {
  auto second = make_thread_bootstraps(GetParam());
  run_ranks(GetParam(), [&](Communicator& a, int rank) {
    Communicator b =
        Communicator::create(std::move(second[static_cast<std::size_t>(rank)]), test_options());
    Arena in_a(a), in_b(b);
    for (const std::string& algorithm : all_reduce_algorithms())
      for (std::uint64_t i = 0; i < 10; ++i) {
        check(a, in_a, {.algorithm = algorithm, .count = 100 + i, .symmetric = true, .seed = i});
        check(b, in_b,
              {.algorithm = algorithm,
               .type = DataType::i64,
               .count = 90 + i,
               .in_place = true,
               .symmetric = true,
               .seed = i});
        // Memory of one is ordinary memory to the other.
        EXPECT_FALSE(a.is_symmetric(in_b.symmetric_send.device(), 1));
      }
    a.bootstrap().barrier();
  });
}

TEST_P(Communicators, MoveKeepsThemWorking) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Communicator moved = std::move(comm);
    Arena arena(moved);
    check(moved, arena, {.algorithm = {}, .count = 50});
    comm = std::move(moved);
  });
}

/// Its memory is that of one block.
TEST_P(Communicators, ABarrierIsOneBlock) {
  run([](Communicator& comm, Arena& arena) {
    for (int i = 0; i < 5; ++i)
      comm.enqueue({.collective = Collective::barrier}, nullptr, nullptr, {},
                   {.algorithm = {}, .blocks = 1000});
    comm.synchronize();
    check(comm, arena, {.algorithm = "tree", .count = 60000});
  });
}

/// A call has a scale, which the option need not repeat.
TEST_P(Communicators, ScaleOfTheCallOrOfTheOption) {
  run_ranks(GetParam(), [](Communicator& comm, int) {
    const Buffer<float> send = comm.allocate<float>(1), recv = comm.allocate<float>(1);
    auto* const host = static_cast<float*>(backend_of(comm).allocate_pinned(sizeof(float)));
    const auto reduce = [&](double call, double option) {
      *host = 1;
      comm.copy(send.data(), host, sizeof(float));
      comm.enqueue({.op = ReduceOp::premul_sum, .count = 1, .scale = call}, send.data(),
                   recv.data(), {}, {.scale = option});
      comm.copy(host, recv.data(), sizeof(float));
      comm.synchronize();
      return *host;
    };
    const auto ranks = static_cast<float>(comm.size());
    EXPECT_EQ(reduce(1, 1), ranks);
    EXPECT_EQ(reduce(2, 1), 2 * ranks);
    EXPECT_EQ(reduce(1, 2), 2 * ranks);
    EXPECT_EQ(reduce(2, 2), 2 * ranks);
    backend_of(comm).deallocate_pinned(host);
  });
}

/// Every collective that has calls in place, of one rank. Reductions of floats are launched: every
/// NaN becomes the only one.
TEST(CommunicatorOfOneRank, LaunchesNothingInPlace) {
  run_ranks(1, [](Communicator& comm, int) {
    DeviceArray data(backend_of(comm), 4 * sizeof(float));
    const auto value = [](std::size_t i) { return element<float>(1, 0, i, ReduceOp::sum); };
    data.put<float>(4, value);
    const auto launches = [&](const Call& call, const CallOptions& options = {}) {
      const Statistics before = comm.statistics();
      comm.enqueue(call, data.device(), data.device(), {}, options);
      EXPECT_EQ(comm.statistics().calls - before.calls, 1u);
      return comm.statistics().launches - before.launches;
    };
    for (int number = 0; number < collective_count; ++number) {
      const auto collective = static_cast<Collective>(number);
      if (collective == Collective::send_recv || collective == Collective::barrier) continue;
      const Call call{.collective = collective, .type = DataType::i32, .count = 4};
      EXPECT_EQ(launches(call), 0u) << name_of(collective);
      const bool changes = facts_of(collective).reduces && collective != Collective::exscan;
      EXPECT_EQ(launches({.collective = collective, .count = 4}), changes ? 1u : 0u)
          << name_of(collective);
      EXPECT_EQ(launches(call, {.blocks = 1}), 1u) << name_of(collective);
    }
    EXPECT_EQ(launches({.count = 4}, {.algorithm = "oneshot_ll"}), 1u);
    EXPECT_EQ(launches({.type = DataType::i32, .op = ReduceOp::avg, .count = 4}), 0u);
    EXPECT_EQ(launches({.op = ReduceOp::premul_sum, .count = 4}, {.scale = 2}), 1u);
    data.download({});
    comm.synchronize();
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(data.get<float>(i), 2 * value(i));
    EXPECT_EQ(data.damage(), "");
  });
}

/// As little scratch memory as docs/environment.md allows: slots and halves are used over and over
/// within a message.
TEST_P(Communicators, MessagesMuchLargerThanScratch) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", GetParam() <= 2   ? "1M"
                                                         : GetParam() <= 4 ? "2M"
                                                                           : "3M");
  run_ranks(GetParam(), [](Communicator& comm, int) {
    Arena arena(comm);
    std::uint64_t turn = static_cast<unsigned>(comm.size());
    for (const std::string& algorithm : all_reduce_algorithms()) {
      ++turn;
      for (const unsigned blocks : {1u, 3u}) {
        const DataType type = ++turn % 2 == 0 ? DataType::u8 : DataType::f32;
        check(comm, arena,
              {.algorithm = algorithm,
               .type = type,
               .count = (under_tsan ? 100000 : 1200000) / size_of(type),
               .symmetric = true,
               .blocks = blocks});
      }
    }
  });
}

/// Rank 2 splits off the group below and leaves it: the part of ranks 2 and 0 is never made, and
/// rank 0 hears of rank 2, not of "rank 0".
TEST(Split, NamesTheRanksOfAPartThatFailsAsItsCallerDoes) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(3, [](Communicator& comm, int rank) {
    const int color = rank % 2, key = -rank;
    if (rank == 2) {
      const BootstrapHooks::Purpose purpose(comm.bootstrap(), "split");
      comm.bootstrap().split(color, key);
    } else {
      const auto error = error_of([&] { static_cast<void>(comm.split(color, key)); });
      if (rank == 0)
        expect_error(error, ErrorCode::bootstrap,
                     testing::StartsWith("the part of ranks 2, 0 (its ranks 0, 1): "));
      else EXPECT_FALSE(error.has_value());  // it is alone in its part
    }
    comm.bootstrap().barrier();
  });
}

/// A device group's ranks may name what they like: device_group_test.
TEST(CommunicatorSettings, TheHostHasADevicePerRank) {
  for (const bool by_option : {true, false}) {
    const ScopedEnvironment wish("PLAIT_BACKEND", by_option ? "" : "host");
    with_bootstraps(2, [&](std::unique_ptr<Bootstrap> bootstrap, int rank) {
      CommunicatorOptions options{.device = rank == 0 ? 0 : 5, .timeout = patience};
      if (by_option) options.backend = BackendKind::host;
      expect_invalid([&] { Communicator::create(std::move(bootstrap), options); },
                     "rank 1: host device 5 does not exist");
    });
  }
  DeviceGroup group({7, 3}, {.backend = BackendKind::host, .timeout = patience});
  group.barrier();
  group.synchronize();
}

TEST(CommunicatorSettings, TooLittleScratchIsAnErrorOnAllRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", "4K");
  with_bootstraps(2, [](std::unique_ptr<Bootstrap> bootstrap, int) {
    expect_invalid([&] { Communicator::create(std::move(bootstrap), test_options()); },
                   "PLAIT_SCRATCH_BYTES=4K");
  });
}

TEST(CommunicatorSettings, MemoryStaysWithinTheLimit) {
  for (const std::size_t megabytes : {6u, 16u, 64u}) {
    const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", fmt::format("{}M", megabytes));
    const std::size_t limit = megabytes << 20;
    const int ranks = why_not(8).empty() ? 8 : 1;
    run_ranks(ranks, [&](Communicator& comm, int) {
      const Statistics statistics = comm.statistics();
      EXPECT_LE(statistics.scratch_bytes, limit);
      if (ranks > 1) {  // one rank has no peers to keep memory for
        EXPECT_GE(statistics.scratch_bytes, limit / 4) << "the limit is there to be used";
      }
      EXPECT_LE(statistics.scratch_bytes_committed, statistics.scratch_bytes);
    });
  }
}

}  // namespace
}  // namespace plait::test
