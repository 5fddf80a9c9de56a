// Ranks that do not come, and calls that do not match: an error that says who, in time, and never a hang.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr auto deadline = 300ms;
constexpr auto soon = under_tsan ? 30s : 5s;

CommunicatorOptions impatient() {
  CommunicatorOptions options;
  options.timeout = deadline;
  return test_options(options);
}

class Missing : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const std::string& algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Missing, testing::Combine(testing::ValuesIn(all_reduce_algorithms()), testing::Values(3)),
                         [](const auto& test) { return fmt::format("{}_n{}", std::get<0>(test.param), std::get<1>(test.param)); });

/// The last rank never calls. `before` calls are made by all.
void miss_a_call(const std::string& algorithm, int ranks, int before) {
  const auto start = Clock::now();
  run_ranks(
      ranks,
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        void* data = arena.symmetric_send.device();
        const auto call = [&](std::size_t count) {
          comm.all_reduce(data, data, count, DataType::i32, ReduceOp::max, {}, {.algorithm = algorithm});
        };
        for (int i = 0; i < before; ++i) call(100);
        comm.synchronize();
        comm.bootstrap().barrier();
        if (rank == ranks - 1) return;
        for (int i = 0; i < 30; ++i) call(1000);  // those behind must not wait for a deadline each
        const std::string missing = before == 0 ? fmt::format("rank {} .*no call yet", ranks - 1)
                                                : fmt::format("rank {} .*last call {}, all_reduce", ranks - 1, before);
        const auto error = error_of([&] { comm.synchronize(); });
        expect_error(error, ErrorCode::timeout, AllOf(ContainsRegex(missing), HasSubstr(algorithm), HasSubstr("1000"), HasSubstr("0.3")));
        EXPECT_TRUE(comm.async_error().has_value());
        const auto again = Clock::now();
        EXPECT_TRUE(error_of([&] { call(1); }).has_value());
        EXPECT_TRUE(error_of([&] { comm.barrier(); }).has_value());
        EXPECT_TRUE(error_of([&] { comm.allocate<int>(5); }).has_value());
        EXPECT_LT(Clock::now() - again, deadline / 2) << "a broken communicator waits again";
      },
      impatient());
  EXPECT_LT(Clock::now() - start, soon);
}

TEST_P(Missing, ARankThatNeverCalls) { miss_a_call(algorithm(), ranks(), 0); }
TEST_P(Missing, ARankThatStopsCalling) { miss_a_call(algorithm(), ranks(), 7); }

/// The message itself says whose fault it is: also where a rank waits for a neighbour that is not the missing one.
TEST_P(Missing, TheMissingRankIsNamedAsMissing) {
  run_ranks(
      ranks(),
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        void* data = arena.symmetric_send.device();
        comm.bootstrap().barrier();
        if (rank == 0) return;
        comm.all_reduce(data, data, 10, DataType::i32, ReduceOp::max, {}, {.algorithm = algorithm()});
        const auto error = error_of([&] { comm.synchronize(); });
        ASSERT_TRUE(error.has_value());
        const std::string text = error->what();
        EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("rank 0")) << text;
      },
      impatient());
}

TEST(Timeout, ABarrierNamesTheMissingRank) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        comm.bootstrap().barrier();
        if (rank == 1) return;
        comm.barrier();
        expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout, AllOf(HasSubstr("for rank 1"), HasSubstr("barrier")));
      },
      impatient());
}

TEST(Timeout, ALateRankIsWaitedFor) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  CommunicatorOptions options;
  options.timeout = 20s;
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        Arena arena(comm);
        if (rank == 1) std::this_thread::sleep_for(500ms);
        check(comm, arena, {.algorithm = {}, .count = 100});
      },
      options);
}

TEST(Timeout, ZeroMeansNoDeadline) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  CommunicatorOptions options;
  options.timeout = 0s;
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        Arena arena(comm);
        if (rank == 1) std::this_thread::sleep_for(200ms);
        check(comm, arena, {.algorithm = {}, .count = 100});
      },
      options);
}

TEST(Timeout, ComesFromTheEnvironmentToo) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment variable("PLAIT_TIMEOUT", "0.2");
  auto bootstraps = make_thread_bootstraps(2);
  on_threads(2, [&](int rank) {
    CommunicatorOptions options;
    options.backend = target();
    Communicator comm = Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options);
    Arena arena(comm);
    comm.bootstrap().barrier();
    if (rank == 1) return;
    comm.all_reduce(arena.send.device(), arena.send.device(), 10, DataType::i32, ReduceOp::max);
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout, HasSubstr("0.2 s"));
  });
}

/// PLAIT_CHECK=1: calls that differ are found before anything is enqueued.
class CheckMode : public testing::Test {
 protected:
  using Call = std::function<void(Communicator&, Arena&, bool odd)>;
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(3); }

  /// Rank 1 makes another call than the others.
  static void expect_mismatch(const testing::Matcher<std::string>& message, const Call& call) {
    const ScopedEnvironment variable("PLAIT_CHECK", "1");
    run_ranks(3, [&](Communicator& comm, int rank) {
      Arena arena(comm);
      arena.send.place(0, 4000);
      arena.recv.place(0, 4000);
      arena.recv.upload({});
      expect_error(error_of([&] { call(comm, arena, rank == 1); }), ErrorCode::mismatch,
                   AllOf(message, HasSubstr("rank 0"), HasSubstr("rank 1")));
      arena.recv.download({});
      comm.synchronize();
      EXPECT_TRUE(arena.recv.untouched());
      check(comm, arena, {.algorithm = {}, .count = 99, .symmetric = true});
    });
  }
};

TEST_F(CheckMode, Counts) {
  expect_mismatch(AllOf(HasSubstr("1000"), HasSubstr("999")), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), odd ? 999 : 1000, DataType::f32, ReduceOp::sum);
  });
  expect_mismatch(HasSubstr("1000"), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), odd ? 0 : 1000, DataType::f32, ReduceOp::sum);
  });
}

TEST_F(CheckMode, TypesOperationsAndScales) {
  expect_mismatch(AllOf(HasSubstr("i32"), HasSubstr("f32")), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, odd ? DataType::i32 : DataType::f32, ReduceOp::sum);
  });
  expect_mismatch(AllOf(HasSubstr("min"), HasSubstr("max")), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, odd ? ReduceOp::min : ReduceOp::max);
  });
  expect_mismatch(AllOf(HasSubstr("0.5"), HasSubstr("0.25")), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::premul_sum, {},
                    {.algorithm = {}, .scale = odd ? 0.5 : 0.25});
  });
}

TEST_F(CheckMode, AlgorithmsMemoryAndCollectives) {
  expect_mismatch(AllOf(HasSubstr("ring"), HasSubstr("oneshot_ll")), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::sum, {},
                    {.algorithm = odd ? "ring" : "oneshot_ll"});
  });
  expect_mismatch(AllOf(HasSubstr("symmetric"), HasSubstr("ordinary")), [](Communicator& comm, Arena& arena, bool odd) {
    DeviceArray& memory = odd ? arena.symmetric_send : arena.send;
    comm.all_reduce(memory.device(), memory.device(), 10, DataType::f32, ReduceOp::sum);
  });
  expect_mismatch(AllOf(HasSubstr("barrier"), HasSubstr("all_reduce")), [](Communicator& comm, Arena& arena, bool odd) {
    if (odd) comm.barrier();
    else comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::sum);
  });
}

/// Algorithms may take a call in symmetric memory as in place on all ranks if it is on theirs.
TEST_F(CheckMode, InPlaceOnOneRankOnly) {
  expect_mismatch(HasSubstr("symmetric memory"), [](Communicator& comm, Arena& arena, bool odd) {
    DeviceArray& recv = odd ? arena.symmetric_send : arena.symmetric_recv;
    comm.all_reduce(arena.symmetric_send.device(), recv.device(), 10, DataType::f32, ReduceOp::sum);
  });
}

TEST_F(CheckMode, EqualCallsPass) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  run_ranks(3, [&](Communicator& comm, int) {
    Arena arena(comm);
    for (const std::string& algorithm : all_reduce_algorithms()) check_launch_shapes(comm, arena, algorithm);
    comm.barrier();
    comm.synchronize();
  });
}

/// Bad arguments on one rank only: with the check, the others hear of it.
TEST_F(CheckMode, ABadArgumentOnOneRankFailsOnAll) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  CommunicatorOptions options;
  options.timeout = under_tsan ? 20s : 3s;
  run_ranks(
      3,
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        const auto start = Clock::now();
        const auto error = error_of(
            [&] { comm.all_reduce(rank == 1 ? nullptr : arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::sum); });
        const std::string text = error ? error->what() : "no error was thrown";
        EXPECT_THAT(text, HasSubstr("rank 1"));
        EXPECT_LT(Clock::now() - start, *options.timeout / 2) << "rank " << rank << " waited: " << text;
      },
      options);
}

}  // namespace
}  // namespace plait::test
