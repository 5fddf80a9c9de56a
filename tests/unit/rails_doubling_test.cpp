// How a call of `rails_doubling` is cut, and when its stages meet, for 2 to 17 nodes, without
// memory or threads. schedule_test follows the terms.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/nodes/rails_doubling/plan.hpp"

namespace plait::rails_doubling {
namespace {

static_assert(Channels::can_have(Plan::slots));

/// Shapes of a launch and its slots, from the least that there may be.
struct Shape {
  unsigned blocks;
  std::size_t grain;
  std::uint32_t node_slot, rail_slot;  // bytes
};
constexpr Shape shapes[] = {
    {1, 64, 64, 64}, {2, 2048, 64 << 10, 128 << 10}, {4, 8192, 4096, 3000}, {8, 4096, 512, 512}};

class RailsDoubling : public testing::TestWithParam<int> {
 protected:
  int nodes() const { return GetParam(); }
  DoublingSchedule schedule(int node) const { return DoublingSchedule::of(node, nodes()); }
  /// Calls body(bytes, shape, plans) with the plan of each node.
  template <class Body>
  void for_each_call(Body body) const {
    for (const int rails : {1, 3})
      for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 16385u, 1'000'001u})
        for (const Shape& shape : shapes) {
          SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(shape.blocks) +
                       " blocks, grain " + std::to_string(shape.grain));
          std::vector<Plan> plans;
          for (int node = 0; node < nodes(); ++node)
            plans.push_back(Plan::of(bytes, rails, schedule(node), shape.blocks, shape.grain,
                                     shape.node_slot, shape.rail_slot));
          body(bytes, shape, plans);
        }
  }
};
INSTANTIATE_TEST_SUITE_P(All, RailsDoubling, testing::Range(2, 18),
                         [](const auto& test) { return "nodes" + std::to_string(test.param); });

TEST_P(RailsDoubling, EveryByteIsInOneChunk) {
  for_each_call([&](std::size_t, const Shape& shape, const std::vector<Plan>& plans) {
    const Plan& plan = plans[0];
    std::size_t end = 0;
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Range stripe = plan.stripes.at(block);
      for (std::uint32_t k = 0; k < plan.chunks.count(stripe); ++k) {
        const Range chunk = plan.chunks.at(stripe, k);
        ASSERT_EQ(chunk.begin, end);
        ASSERT_EQ(chunk.begin % Plan::pack, 0u);
        ASSERT_GT(chunk.size(), 0u);
        end = chunk.end;
      }
    }
    EXPECT_EQ(end, plan.blocks.each);
  });
}

TEST_P(RailsDoubling, ChunksFitTheirSlots) {
  for_each_call([&](std::size_t bytes, const Shape& shape, const std::vector<Plan>& plans) {
    const Plan& plan = plans[0];
    EXPECT_LE(plan.chunks.bytes, shape.node_slot);
    EXPECT_LE(plan.chunks.bytes, shape.rail_slot);
    EXPECT_EQ(plan.chunks.bytes % Plan::pack, 0u);
    EXPECT_GT(plan.chunks.bytes, 0u);
    std::size_t largest = 0;
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Range stripe = plan.stripes.at(block);
      for (std::uint32_t k = 0; k < plan.chunks.count(stripe); ++k)
        largest = std::max(largest, plan.chunks.at(stripe, k).size());
    }
    EXPECT_EQ(plan.chunk_bytes(), largest);
    EXPECT_EQ(largest == 0, bytes == 0);
  });
}

/// A rank uses what another has pushed a fixed number of steps later, before the slot comes round.
TEST_P(RailsDoubling, StagesMeetWhileSlotsLast) {
  for_each_call([&](std::size_t, const Shape&, const std::vector<Plan>& plans) {
    for (int node = 0; node < nodes(); ++node) {
      const Plan& plan = plans[static_cast<std::size_t>(node)];
      EXPECT_GE(plan.first, 1u);
      EXPECT_LT(plan.first, Plan::slots);
      EXPECT_LT(plan.first, plan.last);
      EXPECT_LT(plan.last, plan.gather);
      EXPECT_LT(plan.gather - plan.last, Plan::slots);
      EXPECT_EQ(plan.at(0), plan.first);
      EXPECT_EQ(plan.at(plan.schedule.stages - 1), plan.last);
      EXPECT_GE(plan.lag, 1u);
      EXPECT_LT(plan.lag, Plan::slots);
      for (int stage = 0; stage < plan.schedule.stages; ++stage) {
        const auto out = plan.schedule.outgoing(stage);
        if (!out.exists()) continue;
        const Plan& peer = plans[static_cast<std::size_t>(out.peer)];
        int used = 0;
        for (int there = 0; there < peer.schedule.stages; ++there)
          if (const auto in = peer.schedule.incoming(there); in.exists() && in.peer == node) {
            EXPECT_EQ(peer.at(there), plan.at(stage) + plan.lag)
                << "from node " << node << " to node " << out.peer;
            ++used;
          }
        EXPECT_EQ(used, 1) << "from node " << node << " to node " << out.peer;
      }
    }
  });
}

/// So one way of the channel is enough, and calls may use the two in turn.
TEST_P(RailsDoubling, AStageHasEachPeerToItself) {
  for (int node = 0; node < nodes(); ++node) {
    const DoublingSchedule rail = schedule(node);
    std::set<int> to, from;
    for (int stage = 0; stage < rail.stages; ++stage) {
      if (const auto out = rail.outgoing(stage); out.exists()) {
        EXPECT_TRUE(to.insert(out.peer).second);
      }
      if (const auto in = rail.incoming(stage); in.exists()) {
        EXPECT_TRUE(from.insert(in.peer).second);
      }
    }
    EXPECT_EQ(to, from);
    EXPECT_TRUE(rail.outgoing(0).exists()) << "a node's sum has nowhere to go";
  }
}

}  // namespace
}  // namespace plait::rails_doubling
