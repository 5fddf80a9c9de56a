// Ranks that do not come, and calls that do not match: an error that says who, in time, and never a
// hang.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
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
INSTANTIATE_TEST_SUITE_P(
    All, Missing, testing::Combine(testing::ValuesIn(all_reduce_algorithms()), testing::Values(3)),
    [](const auto& test) {
      return fmt::format("{}_n{}", std::get<0>(test.param), std::get<1>(test.param));
    });

/// Makes no call until the others' time is over.
void stay(const Communicator& comm) { static_cast<void>(heard(comm)); }

/// The last rank never calls. `before` calls are made by all.
void miss_a_call(const std::string& algorithm, int ranks, int before) {
  const auto start = Clock::now();
  run_ranks(
      ranks,
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        void* data = arena.symmetric_send.device();
        const auto call = [&](std::size_t count) {
          comm.all_reduce(data, data, count, DataType::i32, ReduceOp::max, {},
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

TEST_P(Missing, ARankThatNeverCalls) { miss_a_call(algorithm(), ranks(), 0); }
TEST_P(Missing, ARankThatStopsCalling) { miss_a_call(algorithm(), ranks(), 7); }

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
        comm.all_reduce(data, data, 10, DataType::i32, ReduceOp::max, {},
                        {.algorithm = algorithm()});
        const auto error = error_of([&] { comm.synchronize(); });
        ASSERT_TRUE(error.has_value());
        const std::string text = error->what();
        EXPECT_THAT(text.substr(0, text.find('\n')), HasSubstr("rank 0")) << text;
      },
      impatient());
}

/// The beginning of a report.
std::string first_words(const std::optional<Error>& error) {
  if (!error) return "no error";
  const std::string text = error->what();
  return std::string(name_of(error->code())) + ": " + text.substr(0, text.find(':'));
}

/// All ranks make the call, but one's stream does not come to it: so the board has equal calls, and
/// who waits for whom tells. All ranks name that one, however far they are from it. In collectives
/// where not all wait for all, another rank is held up than could do without.
void hold_up(const Subject& subject, int ranks, int victim) {
  const bool from_root =
      subject.collective == Collective::broadcast || subject.collective == Collective::scatter;
  const int root = from_root ? victim : (victim + 1) % ranks;
  std::atomic<int> reported = 0;
  run_ranks(
      ranks,
      [&](Communicator& comm, int rank) {
        constexpr std::size_t most = 4096;  // elements of all blocks
        DeviceArray send(comm, most * sizeof(int)), recv(comm, most * sizeof(int));
        for (DeviceArray* array : {&send, &recv}) array->place(0, most * sizeof(int));
        const Call call{.collective = subject.collective,
                        .type = DataType::i32,
                        .op = ReduceOp::sum,
                        .count = most / 8,
                        .root = root};
        std::promise<void> open;
        comm.bootstrap().barrier();
        if (rank == victim)
          backend_of(comm).host_call(nullptr,
                                     [opened = open.get_future().share()] { opened.wait(); });
        comm.enqueue(call, send.device(), recv.device(), {}, {.algorithm = subject.algorithm});
        const std::string expected = fmt::format("timeout: rank {} has not come so far", victim);
        const std::string where =
            fmt::format("{} by {}, {} ranks, rank {}", name_of(subject.collective),
                        subject.algorithm, ranks, rank);
        // A root may have done its part.
        const auto error = rank == victim || rank == root ? heard(comm, patience)
                                                          : error_of([&] { comm.synchronize(); });
        EXPECT_EQ(first_words(error ? error : heard(comm, patience)), expected)
            << where << ": " << (error ? error->what() : "");
        for (++reported; reported < ranks;) std::this_thread::sleep_for(1ms);
        open.set_value();
      },
      [] {
        CommunicatorOptions options;
        options.timeout = under_tsan ? 10s : 1s;  // creating it is under the same deadline
        return options;
      }());
}

struct HeldUp {
  Subject subject;
  int ranks, victim;
};

/// Several at once: their ranks sleep most of the time.
void hold_up(const std::vector<HeldUp>& cases) {
  std::atomic<std::size_t> next = 0;
  on_threads(target() == BackendKind::host ? 16 : 1, [&](int) {
    for (std::size_t i; (i = next++) < cases.size();)
      if (why_not(cases[i].ranks).empty())
        hold_up(cases[i].subject, cases[i].ranks, cases[i].victim);
  });
}

/// Ranks wait for others that wait themselves.
TEST(HeldUp, IsNamedByAllInChainsTreesAndRings) {
  std::vector<HeldUp> cases;
  for (const char* name : {"ring", "tree", "halving_doubling", "recursive_doubling"}) {
    for (int victim = 0; victim < 4; ++victim) cases.push_back({name, 4, victim});
    for (const int ranks : {3, 5, 8}) cases.push_back({name, ranks, ranks / 2});
  }
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (int victim = 0; victim < 4; ++victim) cases.push_back({{collective, "chain"}, 4, victim});
  hold_up(cases);
}

TEST(HeldUp, IsNamedByAllWithEveryAlgorithm) {
  std::vector<HeldUp> cases;
  const auto add = [&](const Subject& subject) {
    cases.push_back({subject, 4, static_cast<int>(cases.size() % 4)});
  };
  for (const std::string& name : all_reduce_algorithms()) add(name);
  for (const Subject& subject : other_algorithms())
    if (subject.collective != Collective::send_recv) add(subject);
  hold_up(cases);
}

TEST(Timeout, ABarrierNamesTheMissingRank) {
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
TEST(Timeout, SaysThatCallsOfNothingAreNotCounted) {
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
    Communicator comm =
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), options);
    Arena arena(comm);
    comm.bootstrap().barrier();
    if (rank == 1) return stay(comm);
    comm.all_reduce(arena.send.device(), arena.send.device(), 10, DataType::i32, ReduceOp::max);
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::timeout, HasSubstr("0.2 s"));
  });
}

/// A rank that has destroyed the communicator makes no call any more: those that wait for it hear
/// of it at once.
class Left : public testing::Test {
 protected:
  using Call = std::function<void(Communicator&, Arena&)>;
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(3); }

  /// Rank 1 leaves after three calls, rank 0 makes `call`, rank 2 none.
  static void expect_lost(const Call& call, const testing::Matcher<std::string>& message) {
    run_ranks(
        3,
        [&](Communicator& comm, int rank) {
          Arena arena(comm);
          for (int i = 0; i < 3; ++i) comm.barrier();
          comm.synchronize();
          comm.bootstrap().barrier();
          if (rank == 1) return;
          const auto start = Clock::now();
          if (rank == 0) call(comm, arena);
          const auto error = rank == 0 ? error_of([&] { comm.synchronize(); }) : heard(comm);
          expect_error(
              error, ErrorCode::rank_lost,
              AllOf(HasSubstr("rank 1 (process"),
                    HasSubstr("which has destroyed the communicator): last call 3, barrier"),
                    message));
          EXPECT_LT(Clock::now() - start, promised);
        },
        patient());
  }
};

TEST_F(Left, BeforeACollective) {
  expect_lost(
      [](Communicator& comm, Arena& arena) {
        comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32,
                        ReduceOp::sum);
      },
      AllOf(HasSubstr("rank 0 has made call 4, all_reduce of 100 f32 elements"),
            HasSubstr("PLAIT_CHECK=1 compares counts")));
}

TEST_F(Left, BeforeItSends) {
  expect_lost([](Communicator& comm,
                 Arena& arena) { comm.recv(arena.recv.device(), 100, DataType::f32, 1); },
              HasSubstr("rank 0 receives message 1 from it, 100 f32 elements"));
}

/// A short message goes without a receiver, so only the deadline shows that a long one does not.
TEST_F(Left, BeforeItReceives) {
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        constexpr std::size_t bytes = std::size_t{32} << 20;
        comm.bootstrap().barrier();
        if (rank == 1) return;
        if (rank == 2) return stay(comm);
        Backend& backend = backend_of(comm);
        void* const data = backend.allocate(bytes);
        comm.send(data, bytes, DataType::u8, 1);
        expect_error(
            error_of([&] { comm.synchronize(); }), ErrorCode::timeout,
            AllOf(HasSubstr("rank 1 has destroyed the communicator: in message 1 (pairwise_"),
                  HasSubstr("rank 0 waited 0.3 s for rank 1")));
        backend.deallocate(data);
      },
      impatient());
}

/// A rank may leave once it has enqueued its part, however late the others come to it, and whatever
/// they do among themselves.
TEST_F(Left, AfterItsPart) {
  std::atomic<bool> gone = false;
  auto bootstraps = make_thread_bootstraps(3);
  on_threads(3, [&](int rank) {
    auto comm = std::make_unique<Communicator>(
        Communicator::create(std::move(bootstraps[static_cast<std::size_t>(rank)]), patient()));
    auto memory = std::make_unique<Arena>(*comm);
    Arena& arena = *memory;
    comm->bootstrap().barrier();
    if (rank == 0) std::this_thread::sleep_for(200ms);
    for (int i = 0; i < 20; ++i)
      comm->all_reduce(arena.symmetric_send.device(), arena.symmetric_recv.device(), 1000,
                       DataType::i32, ReduceOp::max);
    if (rank == 1) {
      comm->send(arena.send.device(), 10, DataType::i32, 0);
      memory.reset();
      comm.reset();
      gone = true;
      return;
    }
    while (!gone) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);
    EXPECT_FALSE(comm->async_error().has_value());
    if (rank == 0) comm->recv(arena.recv.device(), 10, DataType::i32, 1);
    if (rank == 0) comm->send(arena.send.device(), 10, DataType::i32, 2);
    if (rank == 2) comm->recv(arena.recv.device(), 10, DataType::i32, 0);
    comm->synchronize();
    EXPECT_FALSE(heard(*comm, 1s).has_value());
  });
}

/// Its own kernels may wait for a rank that has left: destroying it must come to an end.
TEST_F(Left, WhoWaitsForItInItsDestructor) {
  const auto start = Clock::now();
  run_ranks(
      3,
      [](Communicator& comm, int rank) {
        Arena arena(comm);
        comm.bootstrap().barrier();
        if (rank != 1)
          comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32,
                          ReduceOp::sum);
      },
      patient());
  EXPECT_LT(Clock::now() - start, soon);
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
  expect_mismatch(AllOf(HasSubstr("1000"), HasSubstr("999")),
                  [](Communicator& comm, Arena& arena, bool odd) {
                    comm.all_reduce(arena.send.device(), arena.recv.device(), odd ? 999 : 1000,
                                    DataType::f32, ReduceOp::sum);
                  });
  expect_mismatch(HasSubstr("1000"), [](Communicator& comm, Arena& arena, bool odd) {
    comm.all_reduce(arena.send.device(), arena.recv.device(), odd ? 0 : 1000, DataType::f32,
                    ReduceOp::sum);
  });
}

TEST_F(CheckMode, TypesOperationsAndScales) {
  expect_mismatch(AllOf(HasSubstr("i32"), HasSubstr("f32")),
                  [](Communicator& comm, Arena& arena, bool odd) {
                    comm.all_reduce(arena.send.device(), arena.recv.device(), 10,
                                    odd ? DataType::i32 : DataType::f32, ReduceOp::sum);
                  });
  expect_mismatch(AllOf(HasSubstr("min"), HasSubstr("max")),
                  [](Communicator& comm, Arena& arena, bool odd) {
                    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32,
                                    odd ? ReduceOp::min : ReduceOp::max);
                  });
  expect_mismatch(
      AllOf(HasSubstr("0.5"), HasSubstr("0.25")), [](Communicator& comm, Arena& arena, bool odd) {
        comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32,
                        ReduceOp::premul_sum, {}, {.algorithm = {}, .scale = odd ? 0.5 : 0.25});
      });
}

TEST_F(CheckMode, AlgorithmsMemoryAndCollectives) {
  expect_mismatch(AllOf(HasSubstr("ring"), HasSubstr("oneshot_ll")),
                  [](Communicator& comm, Arena& arena, bool odd) {
                    comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32,
                                    ReduceOp::sum, {}, {.algorithm = odd ? "ring" : "oneshot_ll"});
                  });
  expect_mismatch(AllOf(HasSubstr("symmetric"), HasSubstr("ordinary")), [](Communicator& comm,
                                                                           Arena& arena, bool odd) {
    DeviceArray& memory = odd ? arena.symmetric_send : arena.send;
    comm.all_reduce(memory.device(), memory.device(), 10, DataType::f32, ReduceOp::sum);
  });
  expect_mismatch(AllOf(HasSubstr("barrier"), HasSubstr("all_reduce")), [](Communicator& comm,
                                                                           Arena& arena, bool odd) {
    if (odd) comm.barrier();
    else
      comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::sum);
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
    for (const std::string& algorithm : all_reduce_algorithms())
      check_launch_shapes(comm, arena, algorithm);
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
        const auto* const send = static_cast<const float*>(arena.send.device());
        auto* const recv = static_cast<float*>(arena.recv.device());
        const auto call = [&](const float* from, std::size_t count) {
          comm.all_reduce(std::span(from, count), std::span(recv, 10), ReduceOp::sum);
        };
        const std::function<void()> calls[] = {
            [&] {
              comm.all_reduce(rank == 1 ? nullptr : send, recv, 10, DataType::f32, ReduceOp::sum);
            },
            [&] { call(send, rank == 1 ? 9 : 10); },
            [&] {
              const Group group;
              call(send, rank == 1 ? 9 : 10);
              call(send, 10);
            },
            [&] {  // what fails on this rank alone does not keep it from agreeing
              const Group group;
              if (rank == 1) comm.send(send, 1, DataType::f32, 7);
              call(send, 10);
              call(rank == 1 ? nullptr : send, 10);
            }};
        for (const auto& made : calls) {
          const auto start = Clock::now();
          const auto error = error_of(made);
          const std::string text = error ? error->what() : "no error was thrown";
          EXPECT_THAT(text, HasSubstr("rank 1"));
          EXPECT_LT(Clock::now() - start, *options.timeout / 2)
              << "rank " << rank << " waited: " << text;
        }
      },
      options);
}

}  // namespace
}  // namespace plait::test
