#include "support/bootstrap_conduct.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "bootstrap/bootstrap_hooks.hpp"
#include "plait/error.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Pointer = std::unique_ptr<Bootstrap>;
using Meet = std::function<void()>;

bool is_last(const Bootstrap& bootstrap) { return bootstrap.rank() == bootstrap.size() - 1; }
std::string last_of(const Bootstrap& bootstrap) {
  return "rank " + std::to_string(bootstrap.size() - 1);
}

void purposes_differ(Pointer& bootstrap, const Meet&) {
  for (int round = 0; round < 3; ++round) {
    const std::string text = message_of(ErrorCode::mismatch, [&] {
      const BootstrapHooks::Purpose purpose(*bootstrap, is_last(*bootstrap) ? "split" : "allocate");
      const BootstrapHooks::Purpose step(*bootstrap, "a step");
      bootstrap->all_gather<double>(1);
    });
    EXPECT_EQ(text, "rank 0 is in allocate, " + last_of(*bootstrap) + " in split");
    EXPECT_EQ(bootstrap->broadcast(bootstrap->rank(), 1), 1) << "the group is no longer in order";
  }
}

void calls_differ(Pointer& bootstrap, const Meet&) {
  const bool last = is_last(*bootstrap);
  std::string text = message_of(ErrorCode::mismatch, [&] {
    if (last) bootstrap->barrier();
    else bootstrap->all_gather<double>(1);
  });
  EXPECT_EQ(text, "rank 0 is in Bootstrap::all_gather of 8 bytes with root 0, " +
                      last_of(*bootstrap) + " in Bootstrap::barrier of 0 bytes with root 0");
  std::array<int, 2> in{};
  std::vector<int> out(2 * static_cast<std::size_t>(bootstrap->size()));
  text = message_of(ErrorCode::mismatch,
                    [&] { bootstrap->all_gather(in.data(), out.data(), last ? 4 : 8); });
  expect_contains(text, "rank 0 is in Bootstrap::all_gather of 8 bytes");
  expect_contains(text, last_of(*bootstrap) + " in Bootstrap::all_gather of 4 bytes");
  text = message_of(ErrorCode::mismatch, [&] { bootstrap->broadcast(1, last ? 1 : 0); });
  expect_contains(text, "with root 0");
  expect_contains(text, "with root 1");
  text = message_of(ErrorCode::mismatch, [&] {
    const BootstrapHooks::Purpose purpose(*bootstrap, "allocate");
    const BootstrapHooks::Purpose step(*bootstrap, last ? "reserving" : "mapping");
    bootstrap->barrier();
  });
  expect_contains(text, "(mapping)");
  expect_contains(text, "(reserving)");
  text = message_of(ErrorCode::mismatch, [&] {
    if (last) bootstrap->split(0, 0);
    else bootstrap->barrier();
  });
  expect_contains(text, "Bootstrap::split");
  bootstrap->barrier();
}

/// Two ranks differ, and one has not come at all: no rank waits for the deadline.
void calls_differ_without_all(Pointer& bootstrap, const Meet& meet) {
  if (!is_last(*bootstrap)) {
    const BootstrapHooks::Purpose purpose(*bootstrap,
                                          bootstrap->rank() == 0 ? "allocate" : "split");
    EXPECT_EQ(message_of(ErrorCode::mismatch, [&] { bootstrap->barrier(); }),
              "rank 0 is in allocate, rank 1 in split");
    message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });
  }
  meet();
  if (is_last(*bootstrap)) {
    try {
      bootstrap->barrier();
      ADD_FAILURE() << "no error was thrown";
    } catch (const Error& error) {
      expect_contains(error.what(), "rank 0 is in allocate");
    }
  }
}

void missing_rank_is_named(Pointer& bootstrap, const Meet& meet) {
  bootstrap->set_timeout(300ms);
  if (!is_last(*bootstrap)) {
    const std::string text = message_of(ErrorCode::bootstrap, [&] { bootstrap->split(0, 0); });
    expect_contains(text, "Bootstrap::split: rank " + std::to_string(bootstrap->rank()) + ": " +
                              last_of(*bootstrap) + " did not arrive at");
    expect_contains(text, "0.3 s");
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); }),
                    "an earlier call failed");
  }
  meet();
  if (is_last(*bootstrap))  // hears that it is too late
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap->split(0, 0); }),
                    last_of(*bootstrap) + " did not arrive");
}

void rank_that_leaves_is_named(Pointer& bootstrap, const Meet& meet) {
  bootstrap->barrier();
  if (is_last(*bootstrap)) bootstrap.reset();
  else
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap->all_gather<int>(1); }),
                    last_of(*bootstrap) + " left the group (the Bootstrap was destroyed)");
  meet();
}

/// A rank gets the error that its own interrupt throws. The others get Error(bootstrap), unless
/// their own interrupt knows better.
void interrupted_rank_ends_the_others(Pointer& bootstrap, const Meet& meet) {
  const auto start = Clock::now();
  const auto after = [start](auto time, auto error) {
    return [=] {
      if (Clock::now() - start > time) throw error;
    };
  };
  if (bootstrap->rank() == 0) {
    BootstrapHooks::set_interrupt(*bootstrap, after(100ms, std::runtime_error("enough")));
    EXPECT_THROW(bootstrap->split(0, 0), std::runtime_error);
  } else if (!is_last(*bootstrap)) {
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap->split(0, 0); }),
                    "rank 0 gave up: enough");
  }
  EXPECT_LT(Clock::now() - start, 5s);
  meet();
}

/// All ranks stop at one moment, as when a communicator breaks. A rank that hears of another's end
/// knows better by itself.
void interrupts_end_all(Pointer& bootstrap, const Meet& meet) {
  const auto start = bootstrap->broadcast(Clock::now(), 0);  // the machine's clock
  BootstrapHooks::set_interrupt(*bootstrap, [start] {
    if (Clock::now() - start > 100ms) throw Error(ErrorCode::aborted, "enough");
  });
  if (!is_last(*bootstrap)) message_of(ErrorCode::aborted, [&] { bootstrap->split(0, 0); });
  meet();
}

void abandoned_group_ends_the_others(Pointer& bootstrap, const Meet& meet) {
  bootstrap->barrier();
  if (is_last(*bootstrap)) BootstrapHooks::abandon(*bootstrap, "a kernel waited in vain", false);
  else
    expect_contains(message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); }),
                    "a kernel waited in vain");
  message_of(ErrorCode::bootstrap, [&] { bootstrap->barrier(); });
  meet();
}

void parts_outlive_the_whole(Pointer& bootstrap, const Meet& meet) {
  for (int round = 0; round < 20; ++round) {
    auto part = bootstrap->split(bootstrap->rank() % 2, -bootstrap->rank());
    EXPECT_EQ(part->timeout(), bootstrap->timeout());
    auto again = part->split(0, 0);
    part.reset();
    const int sum = bootstrap->all_gather(again->size())[0];
    EXPECT_EQ(sum, (bootstrap->size() + 1) / 2);
    std::vector<int> members;  // in the order of their keys
    for (int rank = bootstrap->size() - 1; rank >= 0; --rank)
      if (rank % 2 == bootstrap->rank() % 2) members.push_back(rank);
    EXPECT_EQ(again->all_gather(bootstrap->rank()), members);
  }
  auto part = bootstrap->split(0, 0);
  bootstrap.reset();
  meet();
  part->barrier();
}

}  // namespace

const std::vector<Conduct>& bootstrap_conduct() {
  static const std::vector<Conduct> all{
      {"PurposesDiffer", purposes_differ},
      {"CallsDiffer", calls_differ},
      {"CallsDifferWithoutAll", calls_differ_without_all},
      {"MissingRankIsNamed", missing_rank_is_named},
      {"RankThatLeavesIsNamed", rank_that_leaves_is_named},
      {"InterruptedRankEndsTheOthers", interrupted_rank_ends_the_others},
      {"InterruptsEndAll", interrupts_end_all},
      {"AbandonedGroupEndsTheOthers", abandoned_group_ends_the_others},
      {"PartsOutliveTheWhole", parts_outlive_the_whole}};
  return all;
}

}  // namespace plait::test
