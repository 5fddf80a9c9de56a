// How ranks meet inside a call. They are threads here, and their desks ordinary memory.
#include "bootstrap/call_bootstrap.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <numeric>
#include <vector>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/error.hpp"
#include "support/bootstrap_conduct.hpp"
#include "support/ranks.hpp"

namespace plait {
namespace {

using test::expect_contains;
using test::message_of;

/// Runs `body` on a thread per rank.
void run_ranks(int size, const std::function<void(CallBootstrap&)>& body) {
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes{};
  };
  const std::size_t lines = (CallBootstrap::desk_bytes() + sizeof(Line) - 1) / sizeof(Line);
  std::vector<std::vector<Line>> memory(static_cast<std::size_t>(size), std::vector<Line>(lines));
  std::vector<void*> desks;
  for (auto& desk : memory) desks.push_back(desk.data());
  test::on_threads(size, [&](int rank) {
    CallBootstrap bootstrap(desks, rank);
    bootstrap.set_timeout(std::chrono::seconds(60));
    body(bootstrap);
  });
}

class CallRanks : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, CallRanks, testing::Values(1, 2, 3, 8));

TEST_P(CallRanks, GatherManyTimesInRankOrder) {
  run_ranks(GetParam(), [](CallBootstrap& bootstrap) {
    for (int round = 0; round < 2000; ++round) {
      const std::vector<int> all = bootstrap.all_gather(round * 100 + bootstrap.rank());
      for (int peer = 0; peer < bootstrap.size(); ++peer)
        ASSERT_EQ(all[static_cast<std::size_t>(peer)], round * 100 + peer);
    }
    bootstrap.all_gather(nullptr, nullptr, 0);
    bootstrap.barrier();
  });
}

TEST_P(CallRanks, ExchangeDataOfAnySize) {
  run_ranks(GetParam(), [](CallBootstrap& bootstrap) {
    const auto n = static_cast<std::size_t>(bootstrap.size());
    for (const std::size_t bytes : {1, 2047, 2048, 2049, 10000}) {
      std::vector<unsigned char> mine(bytes), all(n * bytes);
      std::iota(mine.begin(), mine.end(), static_cast<unsigned char>(3 * bootstrap.rank()));
      bootstrap.all_gather(mine.data(), all.data(), bytes);
      for (std::size_t i = 0; i < all.size(); ++i)
        ASSERT_EQ(all[i], static_cast<unsigned char>(3 * (i / bytes) + i % bytes)) << i;
      const int root = static_cast<int>(bytes % n);
      bootstrap.broadcast(mine.data(), bytes, root);
      for (std::size_t i = 0; i < bytes; ++i)
        ASSERT_EQ(mine[i], static_cast<unsigned char>(3 * root + static_cast<int>(i))) << i;
    }
  });
}

TEST(CallBootstrapOf3, SaysWhatEachRankIsIn) {
  run_ranks(3, [](CallBootstrap& bootstrap) {
    const std::string text = message_of(ErrorCode::mismatch, [&] {
      const BootstrapHooks::Purpose purpose(bootstrap,
                                            bootstrap.rank() == 2 ? "ironing" : "cooking");
      bootstrap.barrier();
    });
    expect_contains(text, "rank 0 is in cooking, rank 2 in ironing");
    EXPECT_EQ(bootstrap.broadcast(bootstrap.rank() + 5, 1), 6) << "the ranks have stayed in order";
  });
}

TEST(CallBootstrapOf3, NamesTheRankThatDoesNotCome) {
  run_ranks(3, [](CallBootstrap& bootstrap) {
    bootstrap.barrier();
    if (bootstrap.rank() == 1) return;
    bootstrap.set_timeout(std::chrono::milliseconds(100));
    const std::string text = message_of(ErrorCode::timeout, [&] {
      const BootstrapHooks::Purpose purpose(bootstrap, "cooking");
      bootstrap.barrier();
    });
    EXPECT_EQ(text, "cooking: rank 1 is missing, for 0.1 s");
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap.barrier(); }),
                    "an earlier exchange of the ranks failed: cooking");
  });
}

TEST(CallBootstrapOf3, LooksForWhatInterruptsIt) {
  run_ranks(3, [](CallBootstrap& bootstrap) {
    if (bootstrap.rank() == 1) return;
    const auto begin = std::chrono::steady_clock::now();
    BootstrapHooks::set_interrupt(bootstrap, [begin] {
      if (std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(50))
        throw Error(ErrorCode::aborted, "enough");
    });
    EXPECT_EQ(message_of(ErrorCode::aborted, [&] { bootstrap.barrier(); }), "enough");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  });
}

}  // namespace
}  // namespace plait
