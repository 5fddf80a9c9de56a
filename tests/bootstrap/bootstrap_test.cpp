// The threads bootstrap.
#include "plait/bootstrap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/thread_ranks.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_contains;
using test::message_of;

class ThreadRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, ThreadRanks, testing::Range(1, 9));

TEST_P(ThreadRanks, KnowTheirPlace) {
  const int size = GetParam();
  auto bootstraps = make_thread_bootstraps(size);
  ASSERT_EQ(static_cast<int>(bootstraps.size()), size);
  for (int rank = 0; rank < size; ++rank) {
    const Bootstrap& bootstrap = *bootstraps[static_cast<std::size_t>(rank)];
    EXPECT_EQ(bootstrap.rank(), rank);
    EXPECT_EQ(bootstrap.size(), size);
    EXPECT_EQ(bootstrap.local_rank(), rank);
    EXPECT_EQ(bootstrap.local_size(), size);
    EXPECT_EQ(bootstrap.nodes(), 1);
    EXPECT_EQ(bootstrap.node(), 0);
  }
}

TEST_P(ThreadRanks, GatherManyTimesInRankOrder) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    for (int round = 0; round < 300; ++round) {
      const std::vector<int> all =
          bootstrap->template all_gather<int>(round * 100 + bootstrap->rank());
      for (int peer = 0; peer < bootstrap->size(); ++peer)
        ASSERT_EQ(all[static_cast<std::size_t>(peer)], round * 100 + peer);
    }
    bootstrap->all_gather(nullptr, nullptr, 0);
  });
}

TEST_P(ThreadRanks, GatherInPlace) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    std::vector<int> all(static_cast<std::size_t>(bootstrap->size()), -1);
    int& mine = all[static_cast<std::size_t>(bootstrap->rank())];
    mine = 7 * bootstrap->rank();
    bootstrap->all_gather(&mine, all.data(), sizeof mine);
    for (int peer = 0; peer < bootstrap->size(); ++peer)
      EXPECT_EQ(all[static_cast<std::size_t>(peer)], 7 * peer);
  });
}

TEST_P(ThreadRanks, BroadcastFromEveryRoot) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    for (int root = 0; root < bootstrap->size(); ++root) {
      std::vector<int> data(1000, bootstrap->rank() == root ? root + 5 : -1);
      bootstrap->broadcast(data.data(), data.size() * sizeof(int), root);
      EXPECT_EQ(data, std::vector<int>(1000, root + 5));
    }
  });
}

TEST_P(ThreadRanks, BarrierHoldsEveryRank) {
  std::atomic<int> arrived{0};
  run_ranks(GetParam(), [&](auto& bootstrap) {
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      bootstrap->barrier();
      EXPECT_EQ(arrived.load(), round * bootstrap->size());
      bootstrap->barrier();
    }
  });
}

TEST_P(ThreadRanks, SplitByColorInOrderOfKey) {
  run_ranks(GetParam(), [](auto& bootstrap) {
    const int rank = bootstrap->rank(), size = bootstrap->size();
    for (int round = 0; round < 5; ++round) {
      const int color = rank % 2 == 0 ? -3 : 4;  // any color will do
      auto half = bootstrap->split(color, -rank);
      const int members = rank % 2 == 0 ? (size + 1) / 2 : size / 2;
      ASSERT_EQ(half->size(), members);
      EXPECT_EQ(half->rank(), members - 1 - rank / 2);
      EXPECT_EQ(half->timeout(), bootstrap->timeout());
      const std::vector<int> ranks = half->template all_gather<int>(rank);
      for (int place = 0; place < members; ++place) {
        EXPECT_EQ(ranks[static_cast<std::size_t>(place)], 2 * (members - 1 - place) + rank % 2);
      }
    }
    auto node = bootstrap->split_by_node();
    EXPECT_EQ(node->rank(), rank);
    EXPECT_EQ(node->size(), size);
    bootstrap.reset();  // a part does not need the whole
    node->barrier();
  });
}

TEST(ThreadBootstrap, RefusesBadArguments) {
  expect_contains(message_of(ErrorCode::invalid_argument, [] { make_thread_bootstraps(0); }),
                  "0 ranks");
  auto one = std::move(make_thread_bootstraps(1).front());
  int value = 0;
  expect_contains(
      message_of(ErrorCode::invalid_argument, [&] { one->broadcast(&value, sizeof value, 1); }),
      "root 1");
  expect_contains(message_of(ErrorCode::invalid_argument, [&] { one->broadcast(nullptr, 4, 0); }),
                  "null pointer");
  expect_contains(
      message_of(ErrorCode::invalid_argument, [&] { one->all_gather(&value, nullptr, 4); }),
      "null pointer");
}

TEST(ThreadBootstrap, TimeoutNamesTheMissingRanks) {
  run_ranks(
      5,
      [](auto& bootstrap) {
        bootstrap->barrier();
        if (bootstrap->rank() == 1 || bootstrap->rank() == 4) return;  // present, but never comes
        const std::string text =
            message_of(ErrorCode::bootstrap, [&] { bootstrap->template all_gather<int>(1); });
        expect_contains(text, "Bootstrap::all_gather: rank " + std::to_string(bootstrap->rank()));
        expect_contains(text, "ranks 1, 4 did not arrive");
        expect_contains(text, "0.2 s");
        message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });  // stays broken
      },
      200ms);
}

TEST(ThreadBootstrap, DestroyedRankFailsTheWaiters) {
  run_ranks(4, [](auto& bootstrap) {
    bootstrap->barrier();
    if (bootstrap->rank() == 2) return bootstrap.reset();
    const std::string text = message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });
    expect_contains(text, "Bootstrap::barrier: rank " + std::to_string(bootstrap->rank()));
    expect_contains(text, "rank 2 left");
  });
}

TEST(ThreadBootstrap, LeavingAfterTheLastCallHarmsNobody) {
  for (int round = 0; round < 200; ++round) {
    run_ranks(3, [](auto& bootstrap) {
      bootstrap->barrier();
      bootstrap.reset();
    });
  }
}

TEST(ThreadBootstrap, MismatchIsSeenByAllRanks) {
  run_ranks(3, [](auto& bootstrap) {
    std::array<int, 2> in{};
    std::array<int, 6> out{};
    const std::size_t bytes = bootstrap->rank() == 1 ? 8 : 4;
    const std::string text = message_of(
        ErrorCode::mismatch, [&] { bootstrap->all_gather(in.data(), out.data(), bytes); });
    expect_contains(text, "8 bytes");
    expect_contains(text, "4 bytes");
  });
}

class Conduct : public testing::TestWithParam<test::Conduct> {};
INSTANTIATE_TEST_SUITE_P(Threads, Conduct, testing::ValuesIn(test::bootstrap_conduct()),
                         [](const auto& conduct) { return conduct.param.name; });

TEST_P(Conduct, IsThatOfEveryBootstrap) {
  for (const int size : {3, 4}) {
    std::barrier meeting(size);
    run_ranks(size, [&](auto& bootstrap) {
      GetParam().body(bootstrap, [&] { meeting.arrive_and_wait(); });
    });
  }
}

TEST(ThreadBootstrap, TimeoutIsThatOfTheEnvironment) {
  const auto limit = [] { return make_thread_bootstraps(1).front()->timeout(); };
  EXPECT_EQ(limit(), 10min);
  ::setenv("PLAIT_TIMEOUT", "2.5", 1);
  EXPECT_EQ(limit(), 2500ms);
  ::setenv("PLAIT_TIMEOUT", "soon", 1);
  EXPECT_EQ(limit(), 10min);  // a communicator refuses it
  ::unsetenv("PLAIT_TIMEOUT");
}

}  // namespace
}  // namespace plait
