// Copies of another rank's log of calls that lack its beginning.
#include "communicator/fault/call_log.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

namespace plait {
namespace {

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

void publish(Log& log, std::uint64_t from, std::uint64_t to) {
  for (std::uint64_t call = from; call <= to; ++call) log.publish(call, call_of(call));
}

class SkippedCalls : public testing::Test {
 protected:
  // Zeroed, as logs on a board are.
  std::unique_ptr<Log> mine_ = std::make_unique<Log>(), theirs_ = std::make_unique<Log>();
  std::uint64_t compared_ = 0;
};

TEST_F(SkippedCalls, AgreeIfTheirHashDoes) {
  publish(*mine_, 1, 40);
  publish(*theirs_, 1, 3);
  theirs_->skip_to(30, history_of(29));
  publish(*theirs_, 30, 40);
  EXPECT_EQ(theirs_->begins(), 30u);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 40u);
}

TEST_F(SkippedCalls, DifferIfTheirHashDoes) {
  publish(*mine_, 1, 40);
  theirs_->skip_to(30, history_of(28));  // of another call 29
  publish(*theirs_, 30, 40);
  const auto found = compare_logs(*mine_, *theirs_, compared_);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->exact);  // the calls that are there are equal
  EXPECT_EQ(compared_, 0u);
}

TEST_F(SkippedCalls, AreNotSearchedForTheFirstDifference) {
  publish(*mine_, 1, 40);
  theirs_->skip_to(35, history_of(34));
  publish(*theirs_, 35, 37);
  theirs_->publish(38, call_of(7));
  publish(*theirs_, 39, 40);
  const auto found = compare_logs(*mine_, *theirs_, compared_);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(found->exact);
  EXPECT_EQ(found->call, 38u);
  EXPECT_EQ(found->theirs.count, 7u);
}

/// Mine are behind: there is nothing to compare with yet.
TEST_F(SkippedCalls, AreNoDifferenceToARankThatIsStillThere) {
  publish(*mine_, 1, 20);
  theirs_->skip_to(30, history_of(29));
  publish(*theirs_, 30, 31);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 0u);
  publish(*mine_, 21, 31);
  EXPECT_FALSE(compare_logs(*mine_, *theirs_, compared_).has_value());
  EXPECT_EQ(compared_, 31u);
}

}  // namespace
}  // namespace plait
