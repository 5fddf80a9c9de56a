// Channels and what travels through them in chunks: where slots lie, what counters a chunk waits
// for, which bytes a chunk has.
#include "algorithms/blocks/channels/channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "algorithms/all_reduce/stream/plan.hpp"
#include "unit/channel_memory.hpp"

namespace plait {
namespace {

using Memory = ChannelMemory;

/// Calls body(block, way, from, to) for every channel.
template <class Body>
void for_each_channel(int ranks, Body body) {
  for (unsigned block = 0; block < Memory::blocks; ++block)
    for (unsigned way = 0; way < Channels::ways; ++way)
      for (int from = 0; from < ranks; ++from)
        for (int to = 0; to < ranks; ++to)
          if (from != to) body(block, way, from, to);
}

TEST(Channel, BothEndsMeanTheSameSlotAndNoTwoChannelsShareOne) {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    Memory memory(ranks);
    std::set<const void*> seen;
    for_each_channel(ranks, [&](unsigned block, unsigned way, int from, int to) {
      const Channels sender = memory.of(from), receiver = memory.of(to);
      for (std::uint32_t k = 0; k < 2 * Memory::slots; ++k) {
        const void* out = BlockChannels(sender, block).outgoing<std::byte>(way, to, k);
        const void* in = BlockChannels(receiver, block).incoming<std::byte>(way, from, k);
        ASSERT_EQ(out, in);
        ASSERT_TRUE(memory.holds(out));
        ASSERT_EQ(seen.insert(out).second, k < Memory::slots)
            << "slots are used in turn, by one channel";
      }
    });
  }
}

TEST(Channel, ASignalIsWhatTheOtherEndWaitsFor) {
  for (int ranks = 2; ranks <= 5; ++ranks) {
    Memory memory(ranks);
    std::set<const void*> words;
    for_each_channel(ranks, [&](unsigned block, unsigned way, int from, int to) {
      const Channels from_side = memory.of(from), to_side = memory.of(to);
      const BlockChannels sender(from_side, block), receiver(to_side, block);
      const ChannelSignal published = sender.publish(way, to, 5, 64),
                          consumed = receiver.consume(way, from, 5);
      const ChannelWait arrived = receiver.has_arrived(way, from, 5),
                        free = sender.may_send(way, to, 5 + Memory::slots);
      ASSERT_EQ(published.word, arrived.word);
      ASSERT_EQ(published.value, arrived.at_least);
      ASSERT_EQ(consumed.word, free.word);
      ASSERT_EQ(consumed.value, free.at_least);
      ASSERT_TRUE(words.insert(published.word).second) << "a counter with two writers";
      ASSERT_TRUE(words.insert(consumed.word).second) << "a counter with two writers";
    });
  }
}

/// The first chunks of a call wait until all of the calls before have been consumed, wherever their
/// slots were.
TEST(Channel, CallsFollowEachOther) {
  Memory memory(2);
  const Channels own = memory.of(0);
  const BlockChannels channels(own, 1);
  channels.advance_sent(0, 1, 0xfffffffeu);
  channels.advance_received(0, 1, 7);
  for (std::uint32_t k = 0; k < Memory::slots; ++k)
    EXPECT_EQ(channels.may_send(0, 1, k).at_least, 0xfffffffeu);
  EXPECT_EQ(channels.may_send(0, 1, Memory::slots).at_least, 0xffffffffu);
  EXPECT_EQ(channels.may_send(0, 1, Memory::slots + 1).at_least, 0u) << "counters wrap";
  EXPECT_EQ(channels.publish(0, 1, 2, 64).value, 1u);
  EXPECT_EQ(channels.has_arrived(0, 1, 0).at_least, 8u);
  EXPECT_EQ(channels.may_send(1, 1, 0).at_least, 0u) << "the other way has counters of its own";
}

/// However many chunks they have.
TEST(Channel, CallsTakeTurnsWithTheWays) {
  Memory memory(2);
  const Channels from = memory.of(0), to = memory.of(1);
  const BlockChannels sender(from, 1), receiver(to, 1);
  for (unsigned call = 0; call < 5; ++call) {
    const unsigned way = call % 2;
    ASSERT_EQ(sender.turn_to_send(1), way);
    ASSERT_EQ(receiver.turn_to_receive(0), way);
    EXPECT_EQ(receiver.turn_to_send(0), 0u) << "the other direction has turns of its own";
    sender.advance_sent(way, 1, call);
    receiver.advance_received(way, 0, call);
    sender.end_turn_to_send(1);
    receiver.end_turn_to_receive(0);
  }
}

class StreamPlan : public testing::TestWithParam<std::tuple<int, unsigned, bool>> {};
INSTANTIATE_TEST_SUITE_P(All, StreamPlan,
                         testing::Combine(testing::Values(1, 2, 3, 5, 8),
                                          testing::Values(1u, 2u, 7u, 64u), testing::Bool()));

TEST_P(StreamPlan, ChunksCoverTheMessageOnceAndFitTheirSlots) {
  const auto [ranks, blocks, everywhere] = GetParam();
  for (const std::size_t grain : {64u, 512u})
    for (const std::uint32_t slot : {256u, 1024u, 4096u})
      for (const std::size_t bytes : {1u, 63u, 64u, 65u, 1000u, 4096u, 5000u, 70001u, 1000000u}) {
        const auto plan = stream::Plan::of(bytes, ranks, blocks, grain, slot, everywhere);
        ASSERT_LE(plan.chunks.bytes, slot);
        ASSERT_EQ(plan.chunks.bytes % 64, 0u);
        ASSERT_GE(plan.lag, 1u);
        ASSERT_LT(plan.lag, stream::Plan::slots);
        ASSERT_EQ(plan.has_results, !everywhere);
        std::vector<std::pair<std::size_t, std::size_t>> parts;
        for (int slice = 0; slice < (everywhere ? 1 : ranks); ++slice)
          for (unsigned block = 0; block < blocks; ++block) {
            const Range stripe = plan.stripes.at(block);
            for (std::uint32_t k = 0; k < plan.chunks.count(stripe); ++k) {
              const Range chunk = plan.chunk(slice, stripe, k);
              ASSERT_LE(chunk.size(), plan.chunks.bytes);
              if (chunk.size() != 0) parts.emplace_back(chunk.begin, chunk.end);
            }
          }
        std::sort(parts.begin(), parts.end());
        std::size_t reached = 0;
        for (const auto& [begin, end] : parts) {
          ASSERT_EQ(begin, reached);
          ASSERT_EQ(begin % 64, 0u);
          reached = end;
        }
        ASSERT_EQ(reached, bytes);
      }
}

}  // namespace
}  // namespace plait
