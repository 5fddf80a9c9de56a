// Groups that are refused or left: none of their calls is enqueued, and the next group works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <stdexcept>

#include "groups/groups.hpp"
#include "groups/messages.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

TEST_P(Groups, ABadCallIsReportedAtTheEndAndNothingIsEnqueued) {
  run_refused({10, 20, 30}, [](Communicator& comm, Messages& messages) {
    group_start();
    messages.call(0);
    EXPECT_NO_THROW(comm.all_reduce(nullptr, messages.recv(1), 5, DataType::f32, ReduceOp::sum));
    EXPECT_NO_THROW(
        messages.call(2, {}, {.algorithm = "no such algorithm"}));  // only the first counts
    expect_invalid([] { group_end(); }, "group: call 2: all_reduce", "send is null");
  });
}

TEST_P(Groups, SpansOfDifferentLengthAreReportedAtTheEnd) {
  run_refused({10}, [](Communicator& comm, Messages& messages) {
    group_start();
    std::span<const std::uint64_t> send(static_cast<const std::uint64_t*>(messages.send(0)), 9);
    std::span<std::uint64_t> recv(static_cast<std::uint64_t*>(messages.recv(0)), 10);
    EXPECT_NO_THROW(comm.all_reduce(send, recv, ReduceOp::sum));
    expect_invalid([] { group_end(); }, "send has 9 elements, recv 10");
  });
}

TEST_P(Groups, CallsThatOverlapAreRefused) {
  run({10, 20, 30}, [](Communicator& comm, Arena&, Messages& messages) {
    const Statistics before = comm.statistics();
    group_start();
    messages.call(0);
    messages.call(1);
    comm.all_reduce(messages.send(2), messages.recv(1), 20, DataType::u64, ReduceOp::sum);
    expect_invalid([] { group_end(); }, "calls 2 and 3 use the same memory");
    group_start();
    comm.all_reduce(messages.recv(0), messages.recv(2), 5, DataType::u64, ReduceOp::sum);
    messages.call(0);
    expect_invalid([] { group_end(); }, "calls 1 and 2 use the same memory");
    expect_nothing_enqueued(comm, messages, before);
    // Two that read the same, and one after a barrier, are fine.
    Group group;
    comm.all_reduce(messages.send(2), messages.recv(0), 10, DataType::u64, ReduceOp::sum);
    comm.all_reduce(messages.send(2), messages.recv(1), 20, DataType::u64, ReduceOp::sum);
    comm.barrier();
    messages.call_all();
    group.end();
    messages.expect_right();
  });
}

/// A call's own buffer, beside or around the one that another call overlaps, hides nothing: on no
/// rank.
TEST_P(Groups, CallsThatOverlapOneInPlaceAreRefused) {
  const auto ranks = static_cast<std::size_t>(GetParam());
  run_refused({50 * ranks, 50 * ranks, 50}, [ranks](Communicator& comm, Messages& messages) {
    auto* const all = static_cast<Messages::Value*>(messages.recv(0));
    auto* const other = static_cast<Messages::Value*>(messages.recv(1));
    group_start();
    comm.reduce_scatter(all, all + 50 * comm.rank(), 50, DataType::u64, ReduceOp::sum);
    comm.all_reduce(all, other, 50 * (ranks - 1) + 10, DataType::u64, ReduceOp::sum);
    expect_invalid([] { group_end(); },
                   fmt::format("group: rank {}: calls 1 and 2 use the same memory", comm.rank()));
    group_start();
    comm.all_reduce(all, other, 50 * ranks, DataType::u64, ReduceOp::sum);
    comm.all_gather(all + 50 * comm.rank(), all, 50, DataType::u64);
    expect_invalid([] { group_end(); },
                   fmt::format("group: rank {}: calls 1 and 2 use the same memory", comm.rank()));
  });
}

TEST_P(Groups, CallsOfTwoCommunicatorsThatOverlapAreRefused) {
  run({10, 20, 30}, [](Communicator& comm, Arena&, Messages& messages) {
    Communicator other = comm.duplicate();
    const Statistics before = comm.statistics();
    const auto call_other = [&](const void* send, void* recv) {
      other.all_reduce(send, recv, 10, DataType::u64, ReduceOp::sum);
    };
    group_start();
    messages.call(0);
    comm.barrier();  // orders the calls of `comm`
    other.barrier();
    call_other(messages.recv(0), messages.recv(1));
    expect_invalid([] { group_end(); },
                   fmt::format("group: call 1, all_reduce on rank {0}, and call 4, "
                               "all_reduce on rank {0} of another communicator, "
                               "use the same memory, and one writes it",
                               comm.rank()));
    group_start();
    call_other(messages.send(2), messages.recv(1));
    messages.call(0);
    messages.call(1);
    expect_invalid([] { group_end(); }, "group: call 1, all_reduce on rank");
    EXPECT_EQ(other.statistics().calls, 0u);
    expect_nothing_enqueued(comm, messages, before);
    // Two that read the same are fine.
    messages.fill(2);
    {
      Group group;
      messages.call(0);
      call_other(messages.send(0), messages.recv(1));
    }
    other.synchronize();
    comm.synchronize();
  });
}

TEST_P(Groups, AnExceptionLeavesNothingBehind) {
  run_refused({10, 20}, [](Communicator&, Messages& messages) {
    EXPECT_THROW(
        {
          Group group;
          messages.call(0);
          throw std::runtime_error("something else");
        },
        std::runtime_error);
    // Caught within an outer group: that one is not complete any more.
    group_start();
    messages.call(0);
    try {
      Group inner;
      messages.call(1);
      throw std::runtime_error("something else");
    } catch (const std::runtime_error&) {
    }
    expect_invalid([] { group_end(); }, "left by an exception");
  });
}

TEST_P(Groups, AStreamThatIsDestroyedTakesItsCallsAlong) {
  run_refused({10}, [](Communicator& comm, Messages& messages) {
    group_start();
    messages.call(0, comm.create_stream());  // with a warning
    expect_invalid([] { group_end(); }, "a stream with calls in it was destroyed");
  });
}

TEST(GroupLeftByAnException, MayHaveBeenEndedByHand) {
  const auto leave = [] {
    const Group group;
    group_end();
    throw std::runtime_error("something else");
  };
  EXPECT_THROW(leave(), std::runtime_error);
  EXPECT_FALSE(group_is_open());
}

TEST(GroupThatNeverEnds, IsWarnedOfWhereItsCallsVanish) {
  testing::internal::CaptureStderr();
  run_ranks(1, [](Communicator& comm, int) {
    Arena arena(comm);
    group_start();
    for (int i = 0; i < 2; ++i)
      comm.all_reduce(arena.send.device(), arena.recv.device(), 10, DataType::f32, ReduceOp::sum);
  });
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("plait warn: rank 0: a communicator is destroyed with calls in a group "
                        "that has not ended: 2 of them, never enqueued"));
}

TEST_P(Groups, WrongUses) {
  run({10}, [](Communicator& comm, Arena&, Messages& messages) {
    expect_invalid([] { group_end(); }, "no group was started");
    const Statistics before = comm.statistics();
    group_start();
    comm.synchronize();  // has no calls in it yet
    messages.call(0);
    expect_invalid([&] { comm.synchronize(); }, "group that has not ended");
    int from = 1, to = 0;
    expect_invalid([&] { comm.copy(&to, &from, sizeof to); }, "would run before them");
    {
      Communicator gone = comm.duplicate();
      gone.all_reduce(messages.send(0), messages.recv(0), 1, DataType::u64, ReduceOp::sum);
    }  // with a warning
    expect_invalid([] { group_end(); }, "a communicator with calls in it was destroyed");
    expect_nothing_enqueued(comm, messages, before);
    { Group empty; }
    EXPECT_EQ(comm.statistics().groups - before.groups, 1u);
  });
}

}  // namespace
}  // namespace plait::test
