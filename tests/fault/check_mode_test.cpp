// PLAIT_CHECK=1: calls that differ between ranks are found before anything is enqueued.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

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
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(3); }
};

struct Difference {
  std::vector<std::string> says;
  std::function<void(Communicator&, Arena&, bool odd)> call;
};

/// Rank 1 makes another call than the others.
TEST_F(CheckMode, NamesWhatDiffers) {
  using enum DataType;
  using enum ReduceOp;
  constexpr std::size_t counts[] = {10, 20, 30}, begins[] = {0, 10, 30};
  const Communicator::BlocksOf blocks{counts, begins};
  const auto own = [&](const Communicator& comm) {
    return counts[static_cast<std::size_t>(comm.rank())];
  };
  const auto sum_of = [](auto pick) {  // all_reduces that differ in what `pick` gives
    return [=](Communicator& comm, Arena& arena, bool odd) {
      Call call{.count = 10};
      CallOptions options;
      pick(call, options, odd);
      comm.all_reduce(arena.send.device(), arena.recv.device(), call.count, call.type, call.op, {},
                      options);
    };
  };
  const Difference differences[] = {
      {{"1000", "999"},
       sum_of([](Call& call, CallOptions&, bool odd) { call.count = odd ? 999 : 1000; })},
      {{"1000"}, sum_of([](Call& call, CallOptions&, bool odd) { call.count = odd ? 0 : 1000; })},
      {{"i32", "f32"},
       sum_of([](Call& call, CallOptions&, bool odd) { call.type = odd ? i32 : f32; })},
      {{"min", "max"},
       sum_of([](Call& call, CallOptions&, bool odd) { call.op = odd ? min : max; })},
      {{"0.5", "0.25"}, sum_of([](Call& call, CallOptions& options, bool odd) {
         call.op = premul_sum;
         options.scale = odd ? 0.5 : 0.25;
       })},
      {{"ring", "oneshot_ll"}, sum_of([](Call&, CallOptions& options, bool odd) {
         options.algorithm = odd ? "ring" : "oneshot_ll";
       })},
      {{"symmetric", "ordinary"},
       [](Communicator& comm, Arena& arena, bool odd) {
         void* memory = (odd ? arena.symmetric_send : arena.send).device();
         comm.all_reduce(memory, memory, 10, f32, sum);
       }},
      // Algorithms may take a call in symmetric memory as in place on all ranks if it is on theirs.
      {{"symmetric memory"},
       [](Communicator& comm, Arena& arena, bool odd) {
         DeviceArray& recv = odd ? arena.symmetric_send : arena.symmetric_recv;
         comm.all_reduce(arena.symmetric_send.device(), recv.device(), 10, f32, sum);
       }},
      {{"barrier", "all_reduce"},
       [](Communicator& comm, Arena& arena, bool odd) {
         if (odd) comm.barrier();
         else comm.all_reduce(arena.send.device(), arena.recv.device(), 10, f32, sum);
       }},
      // Calls that consist of messages, and in which all ranks take part.
      {{"gather_v of f32 elements, root 1", "root 0"},
       [&](Communicator& comm, Arena& arena, bool odd) {
         comm.gather_v(arena.send.device(), own(comm), arena.recv.device(), blocks, f32,
                       odd ? 1 : 0);
       }},
      {{"scatter_v of i32", "scatter_v of f32"},
       [&](Communicator& comm, Arena& arena, bool odd) {
         const Group group;
         comm.scatter_v(arena.send.device(), blocks, arena.recv.device(), own(comm),
                        odd ? i32 : f32, 2);
       }},
      {{"all_gather_v of", "calls all_reduce of"},
       [&](Communicator& comm, Arena& arena, bool odd) {
         void *const from = arena.send.device(), *const to = arena.recv.device();
         if (odd) comm.all_gather_v(from, own(comm), to, blocks, f32);
         else comm.all_reduce(from, to, 10, f32, sum);
       }},
      {{"pairwise_ll", "pairwise_push"}, [&](Communicator& comm, Arena& arena, bool odd) {
         comm.all_to_all_v(arena.send.device(), blocks, arena.recv.device(), blocks, f32, {},
                           {.algorithm = odd ? "pairwise_ll" : "pairwise_push"});
       }}};
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  RankGroup(3).run([&](Communicator& comm, Arena& arena) {
    for (const auto& [says, call] : differences) {
      arena.send.place(0, 4000);
      arena.recv.place(0, 4000);
      arena.recv.upload({});
      comm.synchronize();
      const std::string text = message_of(
          ErrorCode::mismatch, [&, &call = call] { call(comm, arena, comm.rank() == 1); });
      for (const std::string& word : says) EXPECT_THAT(text, HasSubstr(word));
      EXPECT_THAT(text, AllOf(HasSubstr("rank 0"), HasSubstr("rank 1")));
      arena.recv.download({});
      comm.synchronize();
      EXPECT_TRUE(arena.recv.untouched());
      check(comm, arena, {.algorithm = {}, .count = 99, .symmetric = true});
    }
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

/// Bad arguments on one rank only, alone and in groups: with the check, the others hear of it, and
/// nothing waits.
TEST_F(CheckMode, ABadArgumentOnOneRankFailsOnAll) {
  const ScopedEnvironment variable("PLAIT_CHECK", "1");
  const CommunicatorOptions options{.timeout = under_tsan ? 20s : 3s};
  run_ranks(3, options, [&](Communicator& comm, int rank) {
    Arena arena(comm);
    const bool odd = rank == 1;
    const auto* const send = static_cast<const float*>(arena.send.device());
    auto* const recv = static_cast<float*>(arena.recv.device());
    const auto sum = [&](const float* from, std::size_t count) {
      comm.all_reduce(std::span(from, count), std::span(recv, 10), ReduceOp::sum);
    };
    using Counts = std::vector<std::size_t>;
    const Counts each{2, 3, 4}, more{2, 3, 4, 5}, tens(3, 10), begins{0, 10, 20},
        overlapping{0, 5, 20};
    const std::size_t own = each[static_cast<std::size_t>(rank)];
    const auto scatter = [&](const Counts& counts, std::size_t count) {
      comm.reduce_scatter_v(std::span(send, 9), counts, std::span(recv, count), ReduceOp::sum);
    };
    const auto gather = [&](const Counts& places, std::size_t count, const float* from) {
      comm.all_gather_v(from, count, recv, {tens, places}, DataType::f32);
    };
    const std::function<void()> calls[] = {
        [&] { comm.all_reduce(odd ? nullptr : send, recv, 10, DataType::f32, ReduceOp::sum); },
        [&] { sum(send, odd ? 9 : 10); },
        in_a_group([&] {
          sum(send, odd ? 9 : 10);
          sum(send, 10);
        }),
        in_a_group([&] {  // what fails on this rank alone does not keep it from agreeing
          if (odd) comm.send(send, 1, DataType::f32, 7);
          sum(send, 10);
          sum(odd ? nullptr : send, 10);
        }),
        [&] { scatter(each, odd ? 1 : own); },
        in_a_group([&] {
          sum(send, 10);
          scatter(each, odd ? 1 : own);
          scatter(each, own);
        }),
        [&] {  // the others wait for no part of it
          comm.reduce_scatter_v(send, odd ? more : each, recv, DataType::f32, ReduceOp::sum);
        },
        [&] { gather(begins, odd ? 9 : 10, send); },
        [&] { gather(begins, 10, odd ? nullptr : send); },
        [&] { gather(odd ? overlapping : begins, 10, send); },
        in_a_group([&] {
          gather(begins, 10, odd ? nullptr : send);
          gather(begins, rank == 2 ? 9 : 10, send);
        }),
        in_a_group([&] {
          comm.reduce_scatter_v(send, odd ? more : each, recv, DataType::f32, ReduceOp::sum);
          gather(begins, 10, send);
        })};
    for (const auto& made : calls) {
      const auto start = Clock::now();
      const auto error = error_of(made);
      const std::string text = error ? error->what() : "no error was thrown";
      expect_error(error, ErrorCode::invalid_argument, HasSubstr("rank 1"));
      EXPECT_LT(Clock::now() - start, *options.timeout / 2) << "rank " << rank << ": " << text;
      const auto after = error_of([&] {
        sum(send, 10);
        comm.synchronize();
      });
      ASSERT_FALSE(after.has_value()) << "out of step after " << text << ": " << after->what();
    }
    // Neighbours are not compared.
    const std::vector<int> peers(1, 1 - rank);
    const Communicator::NeighborBlocks blocks{peers, {tens.data(), 1}, {begins.data(), 1}};
    if (rank < 2) comm.neighbor_all_to_all_v(send, blocks, recv, blocks, DataType::f32);
    gather(begins, 10, send);
    comm.synchronize();
  });
}

}  // namespace
}  // namespace plait::test
