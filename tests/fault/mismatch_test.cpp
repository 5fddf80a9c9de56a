// Ranks that call different things: an error with both sides, soon, on all ranks; never a hang, and
// no wrong result that passes as right.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "communicator/fault/call_log.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;
using Clock = std::chrono::steady_clock;

std::optional<Error> error_after(Communicator& comm) {
  static_cast<void>(error_of([&] { comm.synchronize(); }));  // this rank may have seen nothing yet
  return heard(comm);
}

/// The call of one rank, instead of the call of all others.
struct Odd {
  using Call = std::function<void(Communicator&, Arena&)>;
  std::string name;
  Call usual, odd;
  std::string says_usual, says_odd;
  friend std::string test_name(const Odd& odd) { return odd.name; }
};

void reduce(Communicator& comm, Arena& arena, std::size_t count, DataType type, ReduceOp op,
            const CallOptions& options = {}) {
  void* data = arena.symmetric_send.device();
  comm.all_reduce(data, data, count, type, op, {}, options);
}

std::vector<Odd> odds() {
  using enum DataType;
  using enum ReduceOp;
  using Memory = DeviceArray Arena::*;
  const auto all_reduce = [](std::size_t count, DataType type = f32, ReduceOp op = sum,
                             const CallOptions& options = {}) -> Odd::Call {
    return [=](Communicator& comm, Arena& arena) { reduce(comm, arena, count, type, op, options); };
  };
  const auto shaped = [&](unsigned blocks, unsigned threads) {
    return all_reduce(1000, f32, sum, {.algorithm = "ring", .blocks = blocks, .threads = threads});
  };
  const auto usual = all_reduce(100);
  const auto between = [](Memory from, Memory to, std::size_t offset = 0) -> Odd::Call {
    return [=](Communicator& comm, Arena& arena) {
      comm.all_reduce(static_cast<float*>((arena.*from).device()) + offset,
                      static_cast<float*>((arena.*to).device()) + offset, 100, f32, sum);
    };
  };
  const auto two = [](Communicator& comm, Arena& arena) {
    for (const auto& [from, to] :
         {std::pair(&arena.send, &arena.recv), {&arena.symmetric_send, &arena.symmetric_recv}})
      comm.all_reduce(from->device(), to->device(), 2, i32, sum, {}, {.algorithm = "oneshot_ll"});
  };
  const auto both = [](const Odd::Call& first, const Odd::Call& second) -> Odd::Call {
    return [=](Communicator& comm, Arena& arena) {
      first(comm, arena);
      second(comm, arena);
    };
  };
  const std::string of_100 = "all_reduce of 100 f32 elements, sum", of_70 = "all_reduce of 70 i32",
                    scale = "with another scale, launch shape",
                    place = "at another place in symmetric memory";
  return {
      {"count", usual, all_reduce(60), of_100, "all_reduce of 60 f32 elements"},
      {"large_count", all_reduce(300'000), usual, "all_reduce of 300000 f32", of_100},
      {"type", usual, all_reduce(100, i32), of_100, "all_reduce of 100 i32 elements"},
      {"operation", usual, all_reduce(100, f32, max), of_100,
       "all_reduce of 100 f32 elements, max"},
      {"algorithm", usual, all_reduce(100, f32, sum, {.algorithm = "ring"}), of_100, "by ring"},
      {"shape", shaped(1, 0), shaped(2, 0), "by ring", scale},
      {"swapped_shape", shaped(32, 64), shaped(64, 32), "by ring", scale},
      {"square_shape", shaped(32, 32), shaped(64, 64), "by ring", scale},
      {"collective", usual, [](Communicator& comm, Arena&) { comm.barrier(); }, of_100, "barrier"},
      {"memory", usual, between(&Arena::send, &Arena::recv), "in place in symmetric memory",
       of_100},
      {"place", usual, between(&Arena::symmetric_send, &Arena::symmetric_send, 100), of_100, place},
      {"window", usual, between(&Arena::symmetric_recv, &Arena::symmetric_recv), of_100, place},
      {"block",  // a gather in place in symmetric memory, where all pass the root's block
       [](Communicator& comm, Arena& arena) {
         void* block = arena.symmetric_send.device();
         comm.gather(block, block, 10, f32, 0);
       },
       [](Communicator& comm, Arena& arena) {
         auto* blocks = static_cast<float*>(arena.symmetric_send.device());
         comm.gather(blocks + 10 * comm.rank(), blocks, 10, f32, 0);
       },
       "gather of 10 f32 elements", "also in place, where all pass the root's"},
      {"group",
       [two](Communicator& comm, Arena& arena) {
         const Group group;
         two(comm, arena);
       },
       two, "all_reduce of 2 i32 elements", "company in a group"},
      {"order", both(usual, all_reduce(70, i32)), both(all_reduce(70, i32), usual), of_100, of_70}};
}

class Mismatch : public testing::TestWithParam<std::tuple<Odd, int>> {};
INSTANTIATE_TEST_SUITE_P(All, Mismatch,
                         testing::Combine(testing::ValuesIn(odds()), testing::Values(2, 3, 4)),
                         TestName());

TEST_P(Mismatch, IsAnErrorWithBothSides) {
  const Odd& odd = std::get<0>(GetParam());
  const int ranks = std::get<1>(GetParam());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  run_ranks(ranks, patient(), [&, odd_one = ranks - 1](Communicator& comm, int rank) {
    Arena arena(comm);
    for (int i = 0; i < 3; ++i) odd.usual(comm, arena);
    comm.synchronize();
    comm.bootstrap().barrier();
    const auto start = Clock::now();
    try {
      (rank == odd_one ? odd.odd : odd.usual)(comm, arena);
    } catch (const Error&) {  // the second of two calls, when a peer has found out already
    }
    const auto error = error_after(comm);
    ASSERT_TRUE(error.has_value());
    EXPECT_LT(Clock::now() - start, promised);
    const std::string text = error->what();
    EXPECT_THAT(text, AllOf(StartsWith("ranks disagree in call"), HasSubstr(odd.says_usual),
                            HasSubstr(odd.says_odd), HasSubstr(fmt::format("rank {}", odd_one))));
    EXPECT_EQ(name_of(error->code()), name_of(ErrorCode::mismatch));
  });
}

/// Ranks that read each other's buffers in one process: one has no buffer where the other reads.
TEST(MismatchOfReaders, WithoutABuffer) {
  if (target() != BackendKind::host) GTEST_SKIP() << "only CPU ranks read each other's buffers";
  run_ranks(2, [](Communicator& comm, int rank) {
    Arena arena(comm);
    const CallOptions pull{.algorithm = "pull"};
    // Without the system's leave there is no pull, and for that reason alone.
    if (const auto refused =
            error_of([&] { static_cast<void>(comm.chosen({.count = 1000}, pull)); })) {
      EXPECT_THAT(refused->what(), HasSubstr("can't read each other's ordinary memory"));
      return;
    }
    if (rank == 0) comm.scatter(nullptr, arena.recv.device(), 1000, DataType::u8, 1, {}, pull);
    else comm.all_gather(arena.send.device(), arena.recv.device(), 500, DataType::u64, {}, pull);
    const auto error = error_after(comm);
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->what(), AllOf(HasSubstr("scatter of 1000 u8 elements"),
                                     HasSubstr("all_gather of 500 u64 elements")));
  });
}

/// Places and shapes are compared by their hashes. Buffers in place have two equal halves, windows
/// have small numbers, and offsets are multiples of a few.
TEST(Signatures, TellPlacesAndShapesApart) {
  std::set<std::uint64_t> places, options;
  const std::size_t windows[] = {0, 1, 2, 3, 4, 8, 12}, offsets[] = {0, 1, 2, 4, 8, 12, 400, 512};
  std::size_t number = 0;
  for (const std::size_t send_window : windows)
    for (const std::size_t send_offset : offsets)
      for (const std::size_t recv_window : windows)
        for (const std::size_t recv_offset : offsets) {
          const Place place{send_window, send_offset, recv_window, recv_offset};
          places.insert(Signature::of({.count = 1}, 0, {}, place).place);
          ++number;
        }
  EXPECT_EQ(places.size(), number);
  number = 0;
  for (unsigned blocks = 1; blocks <= 64; ++blocks)
    for (unsigned threads = 1; threads <= 64; ++threads)
      for (const double scale : {0.5, 1., 2.}) {
        options.insert(
            Signature::of({.count = 1, .scale = scale}, 0, {.blocks = blocks, .threads = threads})
                .options);
        ++number;
      }
  EXPECT_EQ(options.size(), number);
}

/// A difference that lies further back than calls are remembered, and that hangs no rank.
TEST(MismatchLongAgo, IsStillFound) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  run_ranks(2, patient(), [](Communicator& comm, int rank) {
    Arena arena(comm);
    std::optional<Error> error;
    try {
      for (int i = 0; i < 5000; ++i)
        reduce(comm, arena, 1, DataType::i32, i == 3 && rank == 1 ? ReduceOp::max : ReduceOp::min);
    } catch (const Error& found) {
      error = found;
    }
    if (!error) error = error_after(comm);
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->what(), StartsWith("ranks disagree"));
  });
}

/// Calls that agree are never taken for others, however fast they come and whichever rank is ahead.
TEST(Agreement, OfManyCalls) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(3);
  run_ranks(3, [](Communicator& comm, int rank) {
    Arena arena(comm);
    for (int round = 0; round < 3; ++round) {
      for (std::size_t i = 0; i < 1500; ++i) {
        reduce(comm, arena, 1 + i % 7, DataType::i32, i % 2 == 0 ? ReduceOp::sum : ReduceOp::max);
        if (i % 500 == static_cast<std::size_t>(rank) * 100) std::this_thread::sleep_for(60ms);
      }
      comm.synchronize();
      EXPECT_FALSE(comm.async_error().has_value());
    }
    comm.bootstrap().barrier();
  });
}

}  // namespace
}  // namespace plait::test
