// Groups whose ranks are threads, which meet in the memory of the process or by sockets.
#include "plait/bootstrap.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bootstrap/support.hpp"
#include "bootstrap/thread_ranks.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"

namespace plait {
namespace {

using namespace std::chrono_literals;
using test::expect_invalid;

class Ranks : public testing::TestWithParam<std::tuple<Means, int>> {
 protected:
  static int size() { return std::get<int>(GetParam()); }
  static void run(const std::function<void(std::unique_ptr<Bootstrap>&)>& body) {
    run_ranks(size(), body, 60s, std::get<Means>(GetParam()));
  }
};
INSTANTIATE_TEST_SUITE_P(Sizes, Ranks,
                         testing::Combine(testing::Values(Means::threads, Means::sockets),
                                          testing::Range(1, 9)),
                         [](const auto& given) {
                           return name_of(std::get<Means>(given.param)) +
                                  std::to_string(std::get<int>(given.param));
                         });

TEST_P(Ranks, KnowTheirPlace) {
  std::atomic<int> ranks = 0;  // as bits
  run([&](auto& bootstrap) {
    ranks |= 1 << bootstrap->rank();
    EXPECT_EQ(bootstrap->size(), size());
    EXPECT_EQ(bootstrap->local_rank(), bootstrap->rank());
    EXPECT_EQ(bootstrap->local_size(), size());
    EXPECT_EQ(bootstrap->nodes(), 1);
    EXPECT_EQ(bootstrap->node(), 0);
    EXPECT_TRUE(bootstrap->parent_ranks().empty());
  });
  EXPECT_EQ(ranks, (1 << size()) - 1);
}

TEST_P(Ranks, GatherManyTimesInRankOrder) {
  run([](auto& bootstrap) {
    for (int round = 0; round < 300; ++round) {
      const std::vector<int> all =
          bootstrap->template all_gather<int>(round * 100 + bootstrap->rank());
      for (int peer = 0; peer < bootstrap->size(); ++peer)
        ASSERT_EQ(all[static_cast<std::size_t>(peer)], round * 100 + peer);
    }
    bootstrap->all_gather(nullptr, nullptr, 0);
  });
}

TEST_P(Ranks, GatherInPlace) {
  run([](auto& bootstrap) {
    std::vector<int> all(static_cast<std::size_t>(bootstrap->size()), -1);
    int& mine = all[static_cast<std::size_t>(bootstrap->rank())];
    mine = 7 * bootstrap->rank();
    bootstrap->all_gather(&mine, all.data(), sizeof mine);
    for (int peer = 0; peer < bootstrap->size(); ++peer)
      EXPECT_EQ(all[static_cast<std::size_t>(peer)], 7 * peer);
  });
}

TEST_P(Ranks, BroadcastFromEveryRoot) {
  run([](auto& bootstrap) {
    for (int root = 0; root < bootstrap->size(); ++root) {
      std::vector<int> data(1000, bootstrap->rank() == root ? root + 5 : -1);
      bootstrap->broadcast(data.data(), data.size() * sizeof(int), root);
      EXPECT_EQ(data, std::vector<int>(1000, root + 5));
    }
  });
}

TEST_P(Ranks, BarrierHoldsEveryRank) {
  std::atomic<int> arrived{0};
  run([&](auto& bootstrap) {
    for (int round = 1; round <= 100; ++round) {
      ++arrived;
      bootstrap->barrier();
      EXPECT_EQ(arrived.load(), round * bootstrap->size());
      bootstrap->barrier();
    }
  });
}

TEST_P(Ranks, SplitByColorInOrderOfKey) {
  run([](auto& bootstrap) {
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
  expect_invalid([] { make_thread_bootstraps(0); }, "0 ranks");
  auto one = std::move(make_thread_bootstraps(1).front());
  int value = 0;
  expect_invalid([&] { one->broadcast(&value, sizeof value, 1); }, "root 1");
  expect_invalid([&] { one->broadcast(nullptr, 4, 0); }, "null pointer");
  expect_invalid([&] { one->all_gather(&value, nullptr, 4); }, "null pointer");
}

class Group : public testing::TestWithParam<Means> {};
INSTANTIATE_TEST_SUITE_P(Met, Group, testing::Values(Means::threads, Means::sockets),
                         [](const auto& given) { return name_of(given.param); });

TEST_P(Group, LeavingAfterTheLastCallHarmsNobody) {
  for (int round = 0; round < 200; ++round)
    run_ranks(
        3,
        [](auto& bootstrap) {
          bootstrap->barrier();
          bootstrap.reset();
        },
        60s, GetParam());
}

/// The conduct has one rank that does not come.
TEST_P(Group, TimeoutNamesAllMissingRanks) {
  run_ranks(
      5,
      [](auto& bootstrap) {
        bootstrap->barrier();
        if (bootstrap->rank() % 3 == 1) return;  // present, but never comes
        test::expect_contains(
            test::message_of(ErrorCode::bootstrap, [&] { bootstrap->template all_gather<int>(1); }),
            "ranks 1, 4 did not arrive at Bootstrap::all_gather within 0.2 s");
      },
      200ms, GetParam());
}

class Conduct : public testing::TestWithParam<std::tuple<Means, test::Conduct>> {};
INSTANTIATE_TEST_SUITE_P(Met, Conduct,
                         testing::Combine(testing::Values(Means::threads, Means::sockets),
                                          testing::ValuesIn(test::bootstrap_conduct())),
                         [](const auto& given) {
                           return name_of(std::get<Means>(given.param)) +
                                  std::get<test::Conduct>(given.param).name;
                         });

TEST_P(Conduct, IsThatOfEveryBootstrap) {
  for (const int size : {3, 4}) {
    std::barrier meeting(size);
    run_ranks(
        size,
        [&](auto& bootstrap) {
          std::get<test::Conduct>(GetParam()).body(bootstrap, [&] { meeting.arrive_and_wait(); });
        },
        60s, std::get<Means>(GetParam()));
  }
}

TEST(ListOfRanks, NamesNodesWhereItKnowsThem) {
  EXPECT_EQ(detail::list_ranks({2}), "rank 2");
  EXPECT_EQ(detail::list_ranks({0, 2, 3}), "ranks 0, 2, 3");
  const std::vector<std::string> nodes{"a", "a", "a", "b", "a"};
  EXPECT_EQ(detail::list_ranks({2}, nodes), "rank 2 on node a");
  EXPECT_EQ(detail::list_ranks({0, 2, 3, 4}, nodes),
            "ranks 0, 2 on node a, rank 3 on node b, rank 4 on node a");
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
