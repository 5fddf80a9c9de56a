// Ranks that do not come, or come late: an error that names the rank, in time, and never a hang.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "fault/deadline.hpp"
#include "support/covering.hpp"
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
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

class Missing : public testing::TestWithParam<std::tuple<std::string, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const std::string& algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(
    All, Missing, testing::Combine(testing::ValuesIn(all_reduce_algorithms()), testing::Values(3)),
    [](const auto& test) {
      return fmt::format("{}_n{}", std::get<0>(test.param), std::get<1>(test.param));
    });

/// The last rank never calls. `before` calls are made by all.
void miss_a_call(const std::string& algorithm, int ranks, int before) {
  const auto start = Clock::now();
  run_ranks(
      ranks,
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        void* data = arena.symmetric_send.device();
        const auto call = [&](std::size_t count) {
          comm.all_reduce(data, data, count, DataType::f32, ReduceOp::max, {},
                          {.algorithm = algorithm});
        };
        for (int i = 0; i < before; ++i) call(100);
        comm.synchronize();
        comm.bootstrap().barrier();
        if (rank == ranks - 1) return stay(comm);
        for (int i = 0; i < 30; ++i) call(1000);  // those behind must not wait for a deadline each
        const std::string missing =
            before == 0 ? fmt::format("rank {} .*no call yet", ranks - 1)
                        : fmt::format("rank {} .*last call {}, all_reduce", ranks - 1, before);
        const auto error = error_of([&] { comm.synchronize(); });
        expect_error(error, ErrorCode::timeout,
                     AllOf(ContainsRegex(missing), HasSubstr(algorithm), HasSubstr("1000"),
                           HasSubstr("0.3")));
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

/// It never calls, or stops, which has as little to do with the algorithm as the words for it.
TEST_P(Missing, ARankThatDoesNotCall) {
  const std::uint64_t first = digest(algorithm().data(), algorithm().size());
  for (std::uint64_t i = first; i < first + unless_full(1, 2); ++i)
    miss_a_call(algorithm(), ranks(), i % 2 == 0 ? 0 : 7);
}

/// The message itself says whose fault it is: also where a rank waits for a neighbour that is not
/// the missing one.
TEST_P(Missing, TheMissingRankIsNamedAsMissing) {
  run_ranks(
      ranks(),
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        void* data = arena.symmetric_send.device();
        comm.bootstrap().barrier();
        if (rank == 0) return stay(comm);
        comm.all_reduce(data, data, 10, DataType::f32, ReduceOp::max, {},
                        {.algorithm = algorithm()});
        const auto error = error_of([&] { comm.synchronize(); });
        ASSERT_TRUE(error.has_value());
        const std::string text = error->what();
        EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("rank 0")) << text;
      },
      impatient());
}

class Timeout : public testing::Test {
 protected:
  /// A process opens a GPU in more than the deadline of these tests.
  static void SetUpTestSuite() {
    if (why_not(3).empty()) run_ranks(3, [](Communicator&, int) {});
  }
};

/// Rank 1 waits in a part for rank 2. Rank 0, which waits for rank 1 in the parent, hears of that.
TEST_F(Timeout, ARankThatWaitsInAPartNamesTheOneItWaitsFor) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        std::optional<Communicator> part = comm.split(rank == 0 ? 0 : 1, rank);
        comm.bootstrap().barrier();
        if (rank != 1) comm.barrier();
        else part->barrier();
        const auto error =
            rank == 1 ? heard(comm, patience) : error_of([&] { comm.synchronize(); });
        expect_error(error, ErrorCode::timeout,
                     AllOf(StartsWith("rank 1 waits in another communicator, the part of ranks 1, "
                                      "2 (its ranks 0, 1): rank 0 wait"),
                           ContainsRegex("in call 1 for rank 1")));
      },
      impatient());
}

TEST_F(Timeout, ABarrierNamesTheMissingRank) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        comm.bootstrap().barrier();
        if (rank == 1) return stay(comm);
        comm.barrier();
        expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
                     AllOf(HasSubstr("for rank 1"), HasSubstr("barrier")));
      },
      impatient());
}

/// A call of 0 elements is none, so the rank that has made it is behind, and the report says what
/// may be the reason.
TEST_F(Timeout, SaysThatCallsOfNothingAreNotCounted) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(
      2,
      [](Communicator& comm, int rank) {
        Arena arena(comm);
        comm.bootstrap().barrier();
        comm.all_reduce(arena.send.device(), arena.recv.device(), rank == 0 ? 0 : 100,
                        DataType::f32, ReduceOp::sum);
        if (rank == 0) return stay(comm);
        expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
                     AllOf(HasSubstr("rank 0 is missing"),
                           HasSubstr("calls of 0 elements are not counted: PLAIT_CHECK=1")));
      },
      impatient());
}

TEST_F(Timeout, ALateRankIsWaitedFor) {
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

TEST_F(Timeout, ZeroMeansNoDeadline) {
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

TEST_F(Timeout, ComesFromTheEnvironmentToo) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment variable("PLAIT_TIMEOUT", "0.2");
  auto bootstraps = make_thread_bootstraps(2);
  on_threads(2, [&](int rank) {
    CommunicatorOptions options;
    options.backend = target();
    Communicator comm =
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options);
    Arena arena(comm);
    comm.bootstrap().barrier();
    if (rank == 1) return stay(comm);
    comm.all_reduce(arena.send.device(), arena.send.device(), 10, DataType::i32, ReduceOp::max);
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout, HasSubstr("0.2 s"));
  });
}

}  // namespace
}  // namespace plait::test
