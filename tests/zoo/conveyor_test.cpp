// Channels under way: slots that go round many times, counters that wrap, receivers that are held
// up.
#include "zoo/conveyor/conveyor.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "support/environment.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::Each;

const AlgorithmRegistration<ConveyorAlgorithm> registration;

/// The counters before a call: at the beginning, and so that they pass 2^32 and 2^31 on the way.
constexpr std::uint32_t starts[] = {0, 0u - 4u, 0x80000000u - 4u};

/// Small slots, so that many chunks are few bytes. Enough for all algorithms.
class Conveyors : public testing::Test {
 protected:
  const ScopedEnvironment scratch_{"PLAIT_SCRATCH_BYTES", "16M"};
};

/// Waits until the peer has published at least so many chunks on both ways.
bool have_come(const ChannelAccess& channels, int peer, std::uint32_t chunks) {
  const auto deadline = std::chrono::steady_clock::now() + patience / 2;
  const auto come = [&](unsigned way) {
    return static_cast<std::int32_t>(channels.published(0, way, peer) - chunks) >= 0;
  };
  while (!come(0) || !come(1)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Both ways' counters are just there, and stay.
void expect_stop_at(const ChannelAccess& channels, int peer, std::uint32_t chunks,
                    const std::string& what) {
  EXPECT_TRUE(have_come(channels, peer, chunks))
      << what << ": the sender stops before its slots are full";
  std::this_thread::sleep_for(30ms);
  for (unsigned way = 0; way < Channels::ways; ++way)
    EXPECT_EQ(channels.published(0, way, peer), chunks) << what << ", way " << way;
}

class ConveyorFlow : public Conveyors,
                     public testing::WithParamInterface<std::tuple<std::uint32_t, int>> {};
INSTANTIATE_TEST_SUITE_P(All, ConveyorFlow,
                         testing::Combine(testing::Values(1u, 2u, 4u, 8u, 16u),
                                          testing::Values(2, 3, 4)),
                         [](const auto& test) {
                           return fmt::format("slots{}_n{}", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

TEST_P(ConveyorFlow, SlotsGoRoundManyTimes) {
  const std::uint32_t slots =
      std::get<0>(GetParam());  // no structured binding: clang 14 lets lambdas capture none
  const int ranks = std::get<1>(GetParam());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const Journey base{.slots = slots, .chunks = 64 * slots + 3};
  run_ranks(ranks, [&](Communicator& comm, int rank) {
    ChannelAccess channels(comm);
    std::uint32_t calls = 0;
    for (const std::uint32_t start : starts) {
      channels.make_old(start);
      for (std::uint32_t lag : {std::min(slots - 1, 2u), slots - 1}) {
        Journey journey = base;
        journey.lag = lag;
        journey.call = ++calls;
        channels.travel(journey);
      }
      comm.synchronize();
      ASSERT_THAT(channels.wrong(), Each(0u)) << "rank " << rank << ", from " << start;
      const auto wraps = channels.wraps();
      for (unsigned block = 0; block < base.blocks; ++block) {
        ASSERT_GE(wraps[block], 64 * calls) << "the slots were to be used again and again";
        ASSERT_EQ(wraps[block], (base.chunks - 1) / slots * calls);
      }
      const auto states = channels.states();
      for (unsigned block = 0; block < base.blocks + 1; ++block)
        for (unsigned way = 0; way < Channels::ways; ++way)
          for (int peer = 0; peer < ranks; ++peer) {
            if (peer == rank) continue;
            const ChannelState& state = states[channels.index(block, way, peer)];
            const std::uint32_t wanted = start + (block < base.blocks ? 2 * base.chunks : 0);
            ASSERT_EQ(state.sent, wanted) << "block " << block;
            ASSERT_EQ(state.received, wanted) << "block " << block;
          }
      comm.bootstrap().barrier();
    }
  });
}

/// A call finds whatever number of chunks, and cuts channels otherwise than the one before.
TEST_F(Conveyors, EveryCallCutsItsChannelsAnew) {
  for (const int ranks : {2, 3}) {
    if (!why_not(ranks).empty()) continue;
    run_ranks(ranks, [&](Communicator& comm, int rank) {
      ChannelAccess channels(comm);
      channels.make_old(0u - 100u);
      Journey journey;
      for (std::uint32_t call = 1; call <= (under_tsan ? 60u : 300u); ++call) {
        journey.slots = 1u << call * 7 % 5;
        journey.chunks = 1 + call * 13 % 29;
        journey.lag = std::min(journey.slots - 1, call % 3);
        journey.blocks = 1 + call % 3;
        journey.call = call;
        channels.travel(journey);
      }
      comm.synchronize();
      ASSERT_THAT(channels.wrong(), Each(0u)) << "rank " << rank;
      comm.bootstrap().barrier();
    });
  }
}

/// By the descriptor, when it enqueues: that breaks the communicator, so a rank may also hear it
/// from the other.
TEST_F(Conveyors, OtherNumbersOfSlotsAreRefused) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  for (const std::uint32_t slots : {0u, 3u, 5u, 6u, 7u, 12u, 32u, 0x80000000u})
    run_ranks(2, [&](Communicator& comm, int) {
      ChannelAccess channels(comm);
      try {  // the other rank may have been refused before this one leaves the barrier
        comm.bootstrap().barrier();
        channels.travel({.slots = slots, .chunks = 5});
        ADD_FAILURE() << slots << " slots were taken";
      } catch (const Error& error) {
        EXPECT_THAT(error.code(), testing::AnyOf(ErrorCode::invalid_argument, ErrorCode::aborted));
        EXPECT_THAT(error.what(), testing::HasSubstr(fmt::format("can't have {} slots", slots)));
      }
    });
}

class HeldUp : public Conveyors, public testing::WithParamInterface<std::uint32_t> {
 protected:
  void SetUp() override {
    if (target() != BackendKind::host) GTEST_SKIP() << "looks at counters while kernels run";
  }
};
INSTANTIATE_TEST_SUITE_P(All, HeldUp, testing::Values(1u, 2u, 4u, 8u, 16u),
                         [](const auto& test) { return fmt::format("slots{}", test.param); });

/// Rank 0 sends, rank 1 has taken some chunks and takes no more for a while.
TEST_P(HeldUp, TheSenderStopsWhenItsSlotsAreFull) {
  const std::uint32_t slots = GetParam();
  run_ranks(2, [&](Communicator& comm, int rank) {
    ChannelAccess channels(comm);
    std::uint32_t calls = 0;
    for (const std::uint32_t start : starts)
      for (const std::uint32_t taken : {0u, 1u, slots, 5 * slots + 1}) {
        channels.make_old(start);
        if (rank == 1) channels.open_gate(taken);
        channels.travel({.slots = slots,
                         .chunks = taken + 3 * slots + 2,
                         .lag = 0,
                         .call = ++calls,
                         .sender = 0,
                         .blocks = 1});
        if (rank == 1)
          expect_stop_at(channels, 0, start + taken + slots,
                         fmt::format("from {}, {} taken", start, taken));
        channels.open_gate(~0u >> 1);
        comm.synchronize();
        ASSERT_THAT(channels.wrong(), Each(0u)) << "rank " << rank;
        const std::uint32_t end = start + taken + 3 * slots + 2;
        EXPECT_EQ(rank == 1 ? channels.published(0, 0, 0) : end, end) << "let go, it finishes";
        comm.bootstrap().barrier();
      }
  });
}

/// The sender's first call ends, as all its chunks have a slot. Its second one may have other
/// slots, so it must not fill any of them before the first one's chunks were all taken.
TEST_P(HeldUp, TheNextCallWaitsForTheLast) {
  constexpr std::uint32_t first_slots = 4, start = 0u - 2u;
  const std::uint32_t slots = GetParam();
  std::promise<void> second_call;
  run_ranks(2, [&](Communicator& comm, int rank) {
    ChannelAccess channels(comm);
    channels.make_old(start);
    if (rank == 1) channels.open_gate(1);
    channels.travel({.slots = first_slots,
                     .chunks = first_slots,
                     .lag = 0,
                     .call = 1,
                     .sender = 0,
                     .blocks = 1});
    const Journey next{
        .slots = slots, .chunks = 4 * slots + 1, .lag = 0, .call = 2, .sender = 0, .blocks = 1};
    if (rank == 0) {
      comm.synchronize();
      channels.travel(next);
      second_call.set_value();
    } else {
      ASSERT_EQ(second_call.get_future().wait_for(patience / 2), std::future_status::ready)
          << "the first call did not end";
      expect_stop_at(channels, 0, start + first_slots, "in the second call");
      channels.open_gate(~0u >> 1);
      channels.travel(next);
    }
    comm.synchronize();
    ASSERT_THAT(channels.wrong(), Each(0u)) << "rank " << rank;
    comm.bootstrap().barrier();
  });
}

}  // namespace
}  // namespace plait::test
