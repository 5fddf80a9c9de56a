// What ranks hear of other nodes, and copies of another rank's log of calls without its beginning.
#include "communicator/fault/board.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bootstrap/nodes.hpp"
#include "communicator/fault/call_log.hpp"
#include "support/pretend_nodes.hpp"

namespace plait::test {
namespace {

using News = std::vector<std::byte>;

/// Each rank of the other node tells one rank here of its calls, and all ranks here of its end.
/// The two may be threads of one process, and the news of the end may arrive first.
TEST(Board, ThreadsHearOfAnotherNodeApart) {
  const std::vector<int> nodes{0, 0, 1, 1};
  auto bootstraps = make_thread_bootstraps(4);
  News first, second, end;  // of rank 2
  on_threads(4, [&](int rank) {
    const auto own = static_cast<std::size_t>(rank);
    PretendNodes bootstrap(std::move(bootstraps[own]), nodes);
    Bootstrap& all = bootstrap;
    const Nodes placed(all, all.all_gather(Nodes::Place::of(all)));
    Board board(all, placed, all.broadcast(std::uint64_t{20261130}, 0),
                all.all_gather(static_cast<std::int32_t>(getpid())));
    const auto publish = [&](std::uint64_t from, std::uint64_t to) {
      for (std::uint64_t call = from; call <= to; ++call)
        board.publish(call, Signature::of({.count = call}, 1, {}));
    };
    publish(1, 20);
    if (rank == 2) first = board.call_news();
    publish(21, 36);
    if (rank == 2) {
      second = board.call_news();
      board.announce(Board::State::left);
      end = board.news();
    }
    bootstrap.barrier();
    if (rank == 0) board.hear(2, first);
    bootstrap.barrier();
    if (rank == 1) board.hear(2, end);
    bootstrap.barrier();
    if (rank == 0) {
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.state(2), Board::State::working);
      EXPECT_EQ(board.calls(2), 20u);
      board.hear(2, second);
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.calls(2), 36u);
    }
    if (rank == 1) {
      EXPECT_FALSE(board.compare());
      EXPECT_EQ(board.state(2), Board::State::left);
      EXPECT_EQ(board.calls(2), 36u);
    }
    bootstrap.barrier();
  });
}

using Log = CallLog<16>;

Signature call_of(std::uint64_t count) {
  Signature signature{};
  signature.count = count;
  return signature;
}

/// The hash of calls 1 to `last`, each of which has its number as its count.
std::uint64_t history_of(std::uint64_t last) {
  std::uint64_t history = 0;
  for (std::uint64_t call = 1; call <= last; ++call)
    history = CallLogs::hash(history, call_of(call));
  return history;
}

void publish_calls(Log& log, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t call = from; call <= to; ++call) log.publish(call, call_of(call));
}

class SkippedCalls : public testing::Test {
 protected:
  // Zeroed, as logs on a board are.
  std::unique_ptr<Log> mine_ = std::make_unique<Log>(), theirs_ = std::make_unique<Log>();
  std::uint64_t compared_ = 0;
};

TEST_F(SkippedCalls, AgreeIfTheirHashDoes) {
  publish_calls(*mine_, 1, 40);
  publish_calls(*theirs_, 1, 3);
  theirs_->skip_to(30, history_of(29));
  publish_calls(*theirs_, 30, 40);
  EXPECT_EQ(theirs_->begins(), 30u);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 40u);
}

TEST_F(SkippedCalls, DifferIfTheirHashDoes) {
  publish_calls(*mine_, 1, 40);
  theirs_->skip_to(30, history_of(28));  // of another call 29
  publish_calls(*theirs_, 30, 40);
  const auto found = compare_logs(*mine_, *theirs_, compared_);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->exact);  // the calls that are there are equal
  EXPECT_EQ(compared_, 0u);
}

TEST_F(SkippedCalls, AreNotSearchedForTheFirstDifference) {
  publish_calls(*mine_, 1, 40);
  theirs_->skip_to(35, history_of(34));
  publish_calls(*theirs_, 35, 37);
  theirs_->publish(38, call_of(7));
  publish_calls(*theirs_, 39, 40);
  const auto found = compare_logs(*mine_, *theirs_, compared_);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->exact);
  EXPECT_EQ(found->call, 38u);
  EXPECT_EQ(found->theirs.count, 7u);
}

/// Mine are behind: there is nothing to compare with yet.
TEST_F(SkippedCalls, AreNoDifferenceToARankThatIsStillThere) {
  publish_calls(*mine_, 1, 20);
  theirs_->skip_to(30, history_of(29));
  publish_calls(*theirs_, 30, 31);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 0u);
  publish_calls(*mine_, 21, 31);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 31u);
}

}  // namespace
}  // namespace plait::test
