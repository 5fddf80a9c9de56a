// Threads that run one function together, and those of a block.
#include "core/thread_team.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/host/host_words.hpp"

namespace plait {
namespace {

/// It ends later than a wait for another rank, which would say more.
TEST(Team, GivesUpWithoutOneOfItsThreads) {
  host::Team team(2);
  std::uint32_t abort = 0, claimed = 0;
  DiagnosticRecord record{};
  Watch watch{.abort = &abort, .record = &record, .claimed = &claimed, .timeout_ns = 10'000'000};
  watch.rank = 3;
  const auto start = std::chrono::steady_clock::now();
  host::KernelWords(5, 8, 0, team, watch).sync();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
  EXPECT_TRUE(team.broken());
  EXPECT_EQ(record.state, out_of_time);
  EXPECT_EQ(record.rank, 3);
  EXPECT_EQ(record.block, 5u);
  EXPECT_EQ(record.step, threads_of_the_block);
  EXPECT_FALSE(host::KernelWords(5, 8, 1, team, watch).all(true));
}

TEST(ThreadTeam, RunsEachIndexOnceAndAllAtTheSameTime) {
  ThreadTeam team("the threads of a test");
  for (const std::size_t count : {std::size_t{1}, std::size_t{4}, std::size_t{2}, std::size_t{7}}) {
    std::vector<std::atomic<int>> runs(count);
    std::atomic<std::size_t> here = 0;
    team.run(count, [&](std::size_t i) {
      ++runs[i];
      for (++here; here < count;) std::this_thread::yield();  // ends only if all run together
    });
    for (const std::atomic<int>& ran : runs) EXPECT_EQ(ran, 1);
  }
}

TEST(ThreadTeam, KeepsAnIndexOnOneThread) {
  ThreadTeam team("the threads of a test", 3);
  std::vector<std::thread::id> first(3), second(3);
  team.run(3, [&](std::size_t i) { first[i] = std::this_thread::get_id(); });
  team.run(3, [&](std::size_t i) { second[i] = std::this_thread::get_id(); });
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 3u);
  EXPECT_FALSE(std::set(first.begin(), first.end()).contains(std::this_thread::get_id()));
}

TEST(ThreadTeam, RunsIndexZeroOnTheCaller) {
  ThreadTeam team("the threads of a test");
  std::vector<std::thread::id> ran(3);
  team.run_with_caller(3, [&](std::size_t i) { ran[i] = std::this_thread::get_id(); });
  EXPECT_EQ(ran[0], std::this_thread::get_id());
  EXPECT_EQ(std::set(ran.begin(), ran.end()).size(), 3u);
}

TEST(ThreadTeam, RethrowsTheFirstExceptionOnceAllHaveReturned) {
  ThreadTeam team("the threads of a test");
  std::atomic<bool> thrown = false;
  std::atomic<int> returned = 0;
  const auto body = [&](std::size_t i) {
    if (i == 1) {
      thrown = true;
      throw std::runtime_error("first");
    }
    while (!thrown) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++returned;
    if (i == 2) throw std::runtime_error("second");
  };
  for (const bool with_caller : {false, true}) {
    thrown = false;
    returned = 0;
    try {
      if (with_caller) team.run_with_caller(4, body);
      else team.run(4, body);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(std::string(error.what()), "first");
    }
    EXPECT_EQ(returned, 3);
  }
  int after = 0;
  team.run(1, [&](std::size_t) { after = 1; });
  EXPECT_EQ(after, 1) << "the team is of use after an exception";
}

}  // namespace
}  // namespace plait
