// Ranks that do not come, come late or have left: an error that names the rank, in time, and never
// a hang.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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

struct Missing {
  std::string algorithm;
  int rank, before;  // it makes so many calls and then no other
};

/// The other ranks name it first of all, also where one waits for a neighbour that is another.
void miss_a_call(const Missing& missing) {
  constexpr int ranks = 3;
  const auto start = Clock::now();
  run_ranks(ranks, impatient(), [&](Communicator& comm, int rank) {
    Arena arena(comm);
    void* data = arena.symmetric_send.device();
    const auto call = [&](std::size_t count) {
      comm.all_reduce(data, data, count, DataType::f32, ReduceOp::max, {},
                      {.algorithm = missing.algorithm});
    };
    for (int i = 0; i < missing.before; ++i) call(100);
    comm.synchronize();
    comm.bootstrap().barrier();
    if (rank == missing.rank) return stay(comm);
    for (int i = 0; i < 30; ++i) call(1000);  // those behind must not wait for a deadline each
    const std::string state =
        missing.before == 0
            ? fmt::format("rank {} .*no call yet", missing.rank)
            : fmt::format("rank {} .*last call {}, all_reduce", missing.rank, missing.before);
    const auto error = error_of([&] { comm.synchronize(); });
    expect_error(
        error, ErrorCode::timeout,
        AllOf(ContainsRegex(fmt::format("^[^\n]*rank {}", missing.rank)), ContainsRegex(state),
              HasSubstr(missing.algorithm), HasSubstr("1000"), HasSubstr("0.5")));
    EXPECT_TRUE(comm.async_error().has_value());
    const auto again = Clock::now();
    EXPECT_TRUE(error_of([&] { call(1); }).has_value());
    EXPECT_TRUE(error_of([&] { comm.barrier(); }).has_value());
    EXPECT_TRUE(error_of([&] { comm.allocate<int>(5); }).has_value());
    EXPECT_LT(Clock::now() - again, deadline / 2) << "a broken communicator waits again";
  });
  EXPECT_LT(Clock::now() - start, soon);
}

class Timeout : public testing::Test {
 protected:
  /// A process opens a GPU in more than the deadline of these tests.
  static void SetUpTestSuite() {
    if (why_not(3).empty()) run_ranks(3, [](Communicator&, int) {});
  }
};

/// The first or the last rank never calls, or stops, which has as little to do with the algorithm
/// as the words for it.
TEST_F(Timeout, NamesARankThatDoesNotCall) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  std::vector<Missing> cases;
  for (const std::string& algorithm : all_reduce_algorithms())
    for (std::size_t i = 0; i < unless_full(2, 4); ++i) {
      const int before = (i % 2 + algorithm.size() + i / 2) % 2 == 0 ? 0 : 7;
      cases.push_back({algorithm, i % 2 == 0 ? 2 : 0, before});
    }
  at_once(cases.size(), [&](std::size_t i) { miss_a_call(cases[i]); });
}

/// Rank 1 waits in a part for rank 2. Rank 0, which waits for rank 1 in the parent, hears of that.
TEST_F(Timeout, ARankThatWaitsInAPartNamesTheOneItWaitsFor) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(3, impatient(), [](Communicator& comm, int rank) {
    std::optional<Communicator> part = comm.split(rank == 0 ? 0 : 1, rank);
    comm.bootstrap().barrier();
    if (rank != 1) comm.barrier();
    else part->barrier();
    const auto error = rank == 1 ? heard(comm, patience) : error_of([&] { comm.synchronize(); });
    expect_error(error, ErrorCode::timeout,
                 AllOf(StartsWith("rank 1 waits in another communicator, the part of ranks 1, "
                                  "2 (its ranks 0, 1): rank 0 wait"),
                       ContainsRegex("in call 1 for rank 1")));
  });
}

TEST_F(Timeout, ABarrierNamesTheMissingRank) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(3, impatient(), [](Communicator& comm, int rank) {
    comm.bootstrap().barrier();
    if (rank == 1) return stay(comm);
    comm.barrier();
    expect_throws(
        ErrorCode::timeout, [&] { comm.synchronize(); }, "for rank 1", "barrier");
  });
}

/// A call of 0 elements is none, so the rank that has made it is behind, and the report says what
/// may be the reason.
TEST_F(Timeout, SaysThatCallsOfNothingAreNotCounted) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, impatient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    comm.bootstrap().barrier();
    comm.all_reduce(arena.send.device(), arena.recv.device(), rank == 0 ? 0 : 100, DataType::f32,
                    ReduceOp::sum);
    if (rank == 0) return stay(comm);
    expect_throws(
        ErrorCode::timeout, [&] { comm.synchronize(); }, "rank 0 is missing",
        "calls of 0 elements are not counted: PLAIT_CHECK=1");
  });
}

/// No deadline is a deadline, too.
TEST_F(Timeout, ALateRankIsWaitedFor) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  for (const auto timeout : {20s, 0s})
    run_ranks(2, {.timeout = timeout}, [](Communicator& comm, int rank) {
      Arena arena(comm);
      if (rank == 1) std::this_thread::sleep_for(300ms);
      check(comm, arena, {.algorithm = {}, .count = 100});
    });
}

TEST_F(Timeout, ComesFromTheEnvironmentToo) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment variable("PLAIT_TIMEOUT", "0.5");
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
    expect_throws(
        ErrorCode::timeout, [&] { comm.synchronize(); }, "0.5 s");
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
    run_ranks(3, patient(), [&](Communicator& comm, int rank) {
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
                HasSubstr("which has destroyed the communicator): last call 3, barrier"), message));
      EXPECT_LT(Clock::now() - start, promised);
    });
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
  run_ranks(3, impatient(), [](Communicator& comm, int rank) {
    constexpr std::size_t bytes = std::size_t{32} << 20;
    comm.bootstrap().barrier();
    if (rank == 1) return;
    if (rank == 2) return stay(comm);
    Backend& backend = backend_of(comm);
    void* const data = backend.allocate(bytes);
    comm.send(data, bytes, DataType::u8, 1);
    expect_throws(
        ErrorCode::timeout, [&] { comm.synchronize(); },
        "rank 1 has destroyed the communicator: in message 1 (pairwise_",
        "rank 0 waited 0.5 s for rank 1");
    backend.deallocate(data);
  });
}

/// A rank may leave once it has enqueued its part, however late the others come to it, and whatever
/// they do among themselves.
TEST_F(Left, AfterItsPart) {
  std::atomic<bool> gone = false;
  with_bootstraps(3, [&](std::unique_ptr<Bootstrap> bootstrap, int rank) {
    auto comm =
        std::make_unique<Communicator>(Communicator::create(std::move(bootstrap), patient()));
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
  run_ranks(3, patient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    comm.bootstrap().barrier();
    if (rank != 1)
      comm.all_reduce(arena.send.device(), arena.recv.device(), 100, DataType::f32, ReduceOp::sum);
  });
  EXPECT_LT(Clock::now() - start, soon);
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
  // Creating it is under the same deadline.
  run_ranks(ranks, {.timeout = under_tsan ? 10s : 2s}, [&](Communicator& comm, int rank) {
    constexpr std::size_t most = 4096;  // elements of all blocks
    DeviceArray send(comm, most * sizeof(int)), recv(comm, most * sizeof(int));
    for (DeviceArray* array : {&send, &recv}) array->place(0, most * sizeof(int));
    const Call call{.collective = subject.collective,
                    .type = DataType::f32,
                    .op = ReduceOp::sum,
                    .count = most / 8,
                    .root = root};
    std::promise<void> open;
    comm.bootstrap().barrier();
    if (rank == victim)
      backend_of(comm).host_call(nullptr, [opened = open.get_future().share()] { opened.wait(); });
    comm.enqueue(call, send.device(), recv.device(), {}, {.algorithm = subject.algorithm});
    const std::string expected = fmt::format("timeout: rank {} has not come so far", victim);
    const std::string where = fmt::format(
        "{} by {}, {} ranks, rank {}", name_of(subject.collective), subject.algorithm, ranks, rank);
    // A root may have done its part.
    const auto error = rank == victim || rank == root ? heard(comm, patience)
                                                      : error_of([&] { comm.synchronize(); });
    EXPECT_EQ(first_words(error ? error : heard(comm, patience)), expected)
        << where << ": " << (error ? error->what() : "");
    for (++reported; reported < ranks;) std::this_thread::sleep_for(1ms);
    open.set_value();
  });
}

struct HeldUp {
  Subject subject;
  int ranks, victim;
};

void hold_up(const std::vector<HeldUp>& cases) {
  at_once(cases.size(), [&](std::size_t i) {
    if (why_not(cases[i].ranks).empty()) hold_up(cases[i].subject, cases[i].ranks, cases[i].victim);
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
  for (const Subject& subject : all_algorithms())
    if (subject.collective != Collective::send_recv)
      cases.push_back({subject, 4, static_cast<int>(cases.size() % 4)});
  hold_up(cases);
}

}  // namespace
}  // namespace plait::test
