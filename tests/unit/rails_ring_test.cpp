// How a call of `rails_ring` is cut, and where its pieces travel, for 2 to 7 nodes, without memory
// or threads.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/nodes/rails_ring/plan.hpp"

namespace plait::rails_ring {
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

class RailsRing : public testing::TestWithParam<int> {
 protected:
  int nodes() const { return GetParam(); }
  /// Calls body(bytes, shape, plan). Small slots cut a large message into very many pieces.
  template <class Body>
  void for_each_plan(Body body) const {
    for (const int rails : {1, 3})
      for (const std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 1000u, 16385u, 99999u, 1'000'001u})
        for (const Shape& shape : shapes) {
          if (bytes > 100'000 && shape.node_slot < 4096) continue;
          SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(shape.blocks) +
                       " blocks, grain " + std::to_string(shape.grain));
          body(bytes, shape,
               Plan::of(bytes, rails, nodes(), shape.blocks, shape.grain, shape.node_slot,
                        shape.rail_slot));
        }
  }
  /// Calls body(stripe, rounds) for the stripes that have data.
  template <class Body>
  static void for_each_stripe(const Shape& shape, const Plan& plan, Body body) {
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Range stripe = plan.stripes.at(block);
      if (stripe.size() != 0) body(stripe, plan.rounds(stripe));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, RailsRing, testing::Range(2, 8),
                         [](const auto& test) { return "nodes" + std::to_string(test.param); });

TEST_P(RailsRing, EveryByteIsInOnePiece) {
  for_each_plan([&](std::size_t, const Shape& shape, const Plan& plan) {
    std::size_t end = 0;
    for_each_stripe(shape, plan, [&](const Range& stripe, std::uint32_t rounds) {
      for (std::uint32_t place = 0; place < plan.pieces(rounds); ++place) {
        const Range range = plan.bytes_of(place, stripe);
        ASSERT_EQ(range.begin % Plan::pack == 0 || range.size() == 0, true);
        ASSERT_EQ(range.begin, end);
        end = range.end;
      }
    });
    EXPECT_EQ(end, plan.blocks.each);
  });
}

TEST_P(RailsRing, PiecesFitTheirSlots) {
  for_each_plan([&](std::size_t bytes, const Shape& shape, const Plan& plan) {
    EXPECT_LE(plan.piece_bytes, shape.node_slot);
    EXPECT_LE(plan.piece_bytes, shape.rail_slot);
    EXPECT_EQ(plan.piece_bytes % Plan::pack, 0u);
    EXPECT_EQ(plan.piece_bytes == 0, bytes == 0);
    EXPECT_GE(plan.lag, 1u);
    EXPECT_GE(plan.on_node, 1u);
    EXPECT_LT(plan.lag, Plan::slots);
    EXPECT_LT(plan.on_node, Plan::slots);
  });
}

/// Slots are as full with many nodes as with few.
TEST_P(RailsRing, PiecesDoNotShrinkWithNodes) {
  const Plan plan = Plan::of(std::size_t{64} << 20, 2, nodes(), 4, 4096, 16384, 32768);
  EXPECT_GE(plan.piece_bytes, 16384u - 1024);
  EXPECT_EQ(plan.lag, Plan::most_lag);
}

/// What node m has in a slot along the rail after it has sent piece t.
struct Sent {
  std::uint32_t place;
  unsigned terms;  // a bit per node
};

/// All nodes in step: each sends what it received `lag` turns before, as the kernel does.
TEST_P(RailsRing, EveryNodeGetsAllTermsOfEachPiece) {
  const auto n = static_cast<std::size_t>(nodes());
  const unsigned all = (1u << n) - 1;
  bool several = false;
  for_each_plan([&](std::size_t, const Shape& shape, const Plan& plan) {
    for_each_stripe(shape, plan, [&](const Range&, std::uint32_t rounds) {
      several = several || rounds > 1;
      const std::uint32_t turns = plan.turns(rounds);
      std::vector<std::vector<Sent>> sent(n);
      std::vector<std::vector<int>> results(n, std::vector<int>(plan.pieces(rounds)));
      std::vector<std::vector<int>> terms = results;
      std::vector<std::uint32_t> next_term(n), next_result(n);
      for (std::uint32_t turn = 0; turn < turns + plan.lag; ++turn)
        for (std::size_t m = 0; m < n; ++m) {
          const auto term = plan.term(turn, rounds, static_cast<int>(m)),
                     result = plan.result(turn, rounds, static_cast<int>(m));
          const bool has_arrived = turn >= plan.lag;
          const Sent arrived = has_arrived ? sent[(m + n - 1) % n][turn - plan.lag] : Sent{};
          const bool is_sum = term.exists && plan.is_last(turn);
          bool is_used = false;
          if (result.exists && !is_sum) {
            ASSERT_TRUE(has_arrived);
            ASSERT_EQ(arrived.place, result.place);
            ASSERT_EQ(arrived.terms, all);
            is_used = true;
            if (plan.goes_on(turn)) sent[m].push_back(arrived);
          }
          if (term.exists) {
            unsigned sum = 1u << m;
            if (plan.has_partial(turn)) {
              ASSERT_TRUE(has_arrived && !is_used);
              ASSERT_EQ(arrived.place, term.place);
              ASSERT_EQ(arrived.terms & sum, 0u);
              sum |= arrived.terms;
              is_used = true;
            }
            if (is_sum) {
              ASSERT_EQ(sum, all);
              ASSERT_EQ(term.place, result.place);
            }
            ASSERT_EQ(term.number, next_term[m]++);
            ASSERT_EQ(results[m][term.place], 0) << "its input may be gone";
            ++terms[m][term.place];
            sent[m].push_back({term.place, sum});
          }
          if (result.exists) {
            ASSERT_EQ(result.number, next_result[m]++);
            ++results[m][result.place];
          }
          ASSERT_EQ(is_used, has_arrived) << "turn " << turn;
          ASSERT_EQ(sent[m].size(), turn < turns ? turn + 1 : turns) << "turn " << turn;
        }
      for (std::size_t m = 0; m < n; ++m) {
        for (const int count : terms[m]) ASSERT_EQ(count, 1);
        for (const int count : results[m]) ASSERT_EQ(count, 1);
        ASSERT_EQ(next_term[m], plan.pieces(rounds));
        ASSERT_EQ(next_result[m], plan.pieces(rounds));
      }
    });
  });
  EXPECT_TRUE(several) << "no message took several rounds";
}

/// A step that has not begun has a number that wrapped.
TEST_P(RailsRing, NothingIsDoneBeforeTheFirstTurn) {
  const Plan plan = Plan::of(100'000, 2, nodes(), 1, 64, 512, 512);
  const std::uint32_t rounds = plan.rounds(plan.stripes.at(0));
  for (std::uint32_t before = 1; before <= 2 * Plan::most_on_node; ++before) {
    EXPECT_FALSE(plan.term(0 - before, rounds, 0).exists);
    EXPECT_FALSE(plan.result(0 - before, rounds, 0).exists);
  }
}

/// However many nodes there are, also where a slot of `rails` has no room for all of them.
TEST(RailsRingSupport, ServesManyNodes) {
  const Algorithm *const ring = Registry::instance().find("rails_ring"), *const rails =
                                                                             Registry::instance()
                                                                                 .find("rails");
  ASSERT_NE(ring, nullptr);
  Topology topology;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.ranks = topology.nodes = 1000;
  EXPECT_TRUE(can_serve(*ring, {.count = 16}, topology));
  EXPECT_FALSE(can_serve(*rails, {.count = 16}, topology));
  topology.nodes = 1;
  EXPECT_EQ(can_serve(*ring, {.count = 16}, topology).reason(), "the ranks are on one node");
}

}  // namespace
}  // namespace plait::rails_ring
