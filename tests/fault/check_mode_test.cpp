// PLAIT_CHECK=1: calls that differ between ranks are found before anything is enqueued.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

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

/// Calls that consist of messages, and in which all ranks take part.
TEST_F(CheckMode, CallsWithACountPerRank) {
  static constexpr std::size_t counts[] = {10, 20, 30}, begins[] = {0, 10, 30};
  const Communicator::BlocksOf blocks{counts, begins};
  const auto own = [](const Communicator& comm) {
    return counts[static_cast<std::size_t>(comm.rank())];
  };
  expect_mismatch(AllOf(HasSubstr("gather_v of f32 elements, root 1"), HasSubstr("root 0")),
                  [&](Communicator& comm, Arena& arena, bool odd) {
                    comm.gather_v(arena.send.device(), own(comm), arena.recv.device(), blocks,
                                  DataType::f32, odd ? 1 : 0);
                  });
  expect_mismatch(AllOf(HasSubstr("scatter_v of i32"), HasSubstr("scatter_v of f32")),
                  [&](Communicator& comm, Arena& arena, bool odd) {
                    const Group group;
                    comm.scatter_v(arena.send.device(), blocks, arena.recv.device(), own(comm),
                                   odd ? DataType::i32 : DataType::f32, 2);
                  });
  expect_mismatch(AllOf(HasSubstr("all_gather_v of"), HasSubstr("calls all_reduce of")),
                  [&](Communicator& comm, Arena& arena, bool odd) {
                    if (odd)
                      comm.all_gather_v(arena.send.device(), own(comm), arena.recv.device(), blocks,
                                        DataType::f32);
                    else
                      comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32,
                                      ReduceOp::sum);
                  });
  expect_mismatch(AllOf(HasSubstr("pairwise_ll"), HasSubstr("pairwise_push")),
                  [&](Communicator& comm, Arena& arena, bool odd) {
                    comm.all_to_all_v(arena.send.device(), blocks, arena.recv.device(), blocks,
                                      DataType::f32, {},
                                      {.algorithm = odd ? "pairwise_ll" : "pairwise_push"});
                  });
}

/// A bad argument of one rank fails on all, within a group too, and neighbours are not compared.
TEST_F(CheckMode, BadCallsWithACountPerRank) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  CommunicatorOptions options;
  options.timeout = under_tsan ? 20s : 3s;
  run_ranks(
      3,
      [&](Communicator& comm, int rank) {
        Arena arena(comm);
        const std::vector<std::size_t> counts(3, 10), begins{0, 10, 20}, overlapping{0, 5, 20},
            uneven{10, 20, 30};
        const auto call_at = [&](const std::vector<std::size_t>& places, std::size_t count,
                                 const void* send) {
          comm.all_gather_v(send, count, arena.recv.device(), {counts, places}, DataType::f32);
        };
        const auto call = [&](std::size_t count, const void* send) {
          call_at(begins, count, send);
        };
        const std::function<void()> calls[] = {
            [&] { call(rank == 1 ? 9 : 10, arena.send.device()); },
            [&] { call(10, rank == 1 ? nullptr : arena.send.device()); },
            [&] { call_at(rank == 1 ? overlapping : begins, 10, arena.send.device()); },
            [&] {
              const Group group;
              call(10, rank == 1 ? nullptr : arena.send.device());
              call(rank == 2 ? 9 : 10, arena.send.device());
            },
            [&] {
              const Group group;
              comm.reduce_scatter_v(arena.send.device(), std::span(uneven).first(rank == 1 ? 2 : 3),
                                    arena.recv.device(), DataType::f32, ReduceOp::sum);
              call(10, arena.send.device());
            }};
        for (const auto& wrong : calls)
          expect_error(error_of(wrong), ErrorCode::invalid_argument, HasSubstr("rank 1"));
        const std::vector<int> peers(1, 1 - rank);
        if (rank < 2)
          comm.neighbor_all_to_all_v(
              arena.send.device(), {peers, {counts.data(), 1}, {begins.data(), 1}},
              arena.recv.device(), {peers, {counts.data(), 1}, {begins.data(), 1}}, DataType::f32);
        call(10, arena.send.device());
        comm.synchronize();
      },
      options);
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
        const std::array<std::size_t, 3> each{2, 3, 4};
        const std::span<const std::size_t> counts(each);
        const auto scatter = [&](std::size_t count) {
          comm.reduce_scatter_v(std::span(send, 9), counts, std::span(recv, count), ReduceOp::sum);
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
            },
            [&] { scatter(rank == 1 ? 1 : counts[static_cast<std::size_t>(rank)]); },
            [&] {
              const Group group;
              call(send, 10);
              scatter(rank == 1 ? 1 : counts[static_cast<std::size_t>(rank)]);
              scatter(counts[static_cast<std::size_t>(rank)]);
            },
            [&] {  // the others wait for no part of it
              const std::array<std::size_t, 4> more{2, 3, 4, 5};
              comm.reduce_scatter_v(send, rank == 1 ? std::span<const std::size_t>(more) : counts,
                                    recv, DataType::f32, ReduceOp::sum);
            }};
        for (const auto& made : calls) {
          const auto start = Clock::now();
          const auto error = error_of(made);
          const std::string text = error ? error->what() : "no error was thrown";
          EXPECT_THAT(text, HasSubstr("rank 1"));
          EXPECT_LT(Clock::now() - start, *options.timeout / 2)
              << "rank " << rank << " waited: " << text;
          const auto after = error_of([&] {
            call(send, 10);
            comm.synchronize();
          });
          ASSERT_FALSE(after.has_value()) << "out of step after " << text << ": " << after->what();
        }
      },
      options);
}

}  // namespace
}  // namespace plait::test
