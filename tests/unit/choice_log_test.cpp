// PLAIT_LOG=info,select, as tests/unit/CMakeLists.txt sets it: a line for each distinct choice.
#include "communicator/selection/choice_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

/// The lines about choices that `body` writes.
std::vector<std::string> choices(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  std::istringstream text(testing::internal::GetCapturedStderr());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("plait select: ")) lines.push_back(line);
  return lines;
}

std::vector<std::string> choices_of(const std::function<void(Communicator&, float*)>& body,
                                    int ranks = 2) {
  constexpr std::size_t most = 4096;
  return choices([&] {
    run_ranks(ranks, [&](Communicator& comm, int) {
      std::vector<float> data(most);
      body(comm, data.data());
      comm.synchronize();
    });
  });
}

TEST(ChoiceLog, HasOneLineForAllRanks) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    for (int i = 0; i < 3; ++i) comm.all_reduce(data, data, 100, DataType::f32, ReduceOp::sum);
  });
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0],
              ContainsRegex("^plait select: rank 0 of 2: all_reduce of 100 x f32 .400 bytes., sum, "
                            "ordinary memory: [a-z_0-9]+ with [0-9]+ blocks of [0-9]+ threads, by "
                            "[^;]+; estimated [0-9.]+ us; next [a-z_0-9]+, estimated [0-9.]+ us$"));
}

/// Thousands of sizes have as many lines as choices and powers of two.
TEST(ChoiceLog, IsShortForManySizes) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t count = 1; count <= 2000; ++count)
        comm.all_reduce(data, data, count, DataType::f32, ReduceOp::sum);
  });
  EXPECT_GE(lines.size(), 11u);
  EXPECT_LE(lines.size(), 30u);
}

TEST(ChoiceLog, TellsCallsApart) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    comm.all_reduce(data, data, 100, DataType::f32, ReduceOp::sum);
    comm.all_reduce(data, data, 100, DataType::f32, ReduceOp::max);
    comm.all_reduce(data, data, 100, DataType::i32, ReduceOp::sum);
    comm.all_reduce(data, data, 100, DataType::f32, ReduceOp::sum, {}, {.algorithm = "ring"});
    comm.all_reduce(data, data, 100, DataType::f32, ReduceOp::sum, {}, {.algorithm = "p2p"});
    comm.broadcast(data, data, 100, DataType::f32, 0);
    comm.broadcast(data, data, 100, DataType::f32, 1);
    comm.barrier();
  });
  EXPECT_THAT(lines, SizeIs(7)) << testing::PrintToString(lines);
  EXPECT_THAT(lines, testing::Contains(HasSubstr("by call option")));
  EXPECT_THAT(lines, testing::Contains(HasSubstr("by policy p2p: ")));
}

/// Rank 0 does not see all messages, so each sender says its own.
TEST(ChoiceLog, HasMessagesBySender) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    if (comm.rank() == 1) comm.send(data, 10, DataType::f32, 0);
    else comm.recv(data, 10, DataType::f32, 1);
  });
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], StartsWith("plait select: rank 1 of 2: send_recv of 10 x f32 (40 bytes)"));
}

TEST(ChoiceLog, NamesTheSharedLaunchOfAGroup) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    group_start();
    for (std::size_t i = 0; i < 4; ++i)
      comm.all_reduce(data + 8 * i, data + 8 * i, 8, DataType::f32, ReduceOp::sum);
    group_end();
  });
  ASSERT_THAT(lines, SizeIs(2));
  EXPECT_THAT(lines[1], ContainsRegex("rank 0 of 2: calls of a group, all_reduce of 32 x f32 .128 "
                                      "bytes. together: one launch of [a-z_0-9]+$"));
}

TEST(ChoiceLog, HasNothingWhereNothingIsLaunched) {
  EXPECT_THAT(choices_of(
                  [](Communicator& comm, float* data) {
                    comm.all_reduce(data, data, 100, DataType::i32, ReduceOp::sum);
                    comm.all_reduce(data, data, 0, DataType::i32, ReduceOp::sum);
                  },
                  1),
              IsEmpty());
}

/// The calls of a calibration are no user's calls.
TEST(ChoiceLog, HasNothingOfTheCalibration) {
  const ScopedEnvironment again("PLAIT_CALIBRATE", "again"),
      folder("XDG_CACHE_HOME", testing::TempDir());
  EXPECT_THAT(choices_of([](Communicator&, float*) {}), IsEmpty());
}

TEST(ChoiceLog, EndsAtSomeTime) {
  const auto lines = choices_of([](Communicator& comm, float* data) {
    for (unsigned blocks = 1; blocks <= 2 * ChoiceLog::most_lines; ++blocks)
      comm.all_reduce(data, data, 1, DataType::f32, ReduceOp::sum, {},
                      {.algorithm = "ring", .blocks = blocks});
  });
  ASSERT_THAT(lines, SizeIs(ChoiceLog::most_lines));
  EXPECT_THAT(lines.back(),
              HasSubstr("rank 0 of 2: 1000 distinct choices so far, further ones have no lines"));
}

/// What a process with this PLAIT_LOG says of it.
void say_level(const char* value) {
  setenv("PLAIT_LOG", value, 1);
  try {
    fmt::print(stderr, "level {}, choices {}", static_cast<int>(log::level()), log::says_choices());
  } catch (const Error& error) {
    std::fputs(error.what(), stderr);
  }
  std::_Exit(0);
}

TEST(ChoiceLogDeathTest, IsAskedForBesideALevel) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // PLAIT_LOG is read once per process
  const auto exits = testing::ExitedWithCode(0);
  EXPECT_EXIT(say_level("select"), exits, "level 2, choices true");
  EXPECT_EXIT(say_level("select,debug"), exits, "level 4, choices true");
  EXPECT_EXIT(say_level("off,select"), exits, "level 0, choices true");
  EXPECT_EXIT(say_level("info"), exits, "level 3, choices false");
  for (const char* wrong : {"info,", ",select", "info,debug", "select,select", "selection",
                            "info select", "info,select,warn"})
    EXPECT_EXIT(say_level(wrong), exits,
                "PLAIT_LOG=.*: expected one of off, error, warn, info, debug, or select, or both "
                "as in info,select");
}

}  // namespace
}  // namespace plait::test
