// How a call of `rails_tree` is cut, and where its pieces travel, for 2 to 17 nodes, without memory
// or threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/nodes/rails_tree/plan.hpp"

namespace plait::rails_tree {
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

class RailsTree : public testing::TestWithParam<int> {
 protected:
  int nodes() const { return GetParam(); }
  /// Calls body(bytes, shape, plan). Small slots cut a large message into very many pieces.
  template <class Body>
  void for_each_plan(Body body) const {
    for (const int rails : {1, 3})
      for (const std::size_t bytes : {1u, 63u, 64u, 65u, 129u, 1000u, 16385u, 99999u, 1'000'001u})
        for (const Shape& shape : shapes) {
          if (bytes > 20'000 && shape.node_slot < 4096) continue;
          SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(shape.blocks) +
                       " blocks, grain " + std::to_string(shape.grain));
          body(bytes, shape,
               Plan::of(bytes, rails, nodes(), shape.blocks, shape.grain, shape.node_slot,
                        shape.rail_slot));
        }
  }
};
INSTANTIATE_TEST_SUITE_P(All, RailsTree, testing::Range(2, 18),
                         [](const auto& test) { return "nodes" + std::to_string(test.param); });

TEST_P(RailsTree, EveryByteIsInOnePiece) {
  for_each_plan([&](std::size_t bytes, const Shape& shape, const Plan& plan) {
    std::size_t end = 0;
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Range stripe = plan.stripes.at(block);
      for (std::uint32_t place = 0; place < plan.chunks.count(stripe); ++place) {
        const Range range = plan.bytes_of(place, stripe);
        ASSERT_EQ(range.begin % Plan::pack, 0u);
        ASSERT_EQ(range.begin, end);
        ASSERT_GT(range.size(), 0u);
        ASSERT_LE(range.size(), std::min(shape.node_slot, shape.rail_slot));
        end = range.end;
      }
    }
    EXPECT_EQ(end, plan.blocks.each);
    EXPECT_GE(plan.blocks.each * static_cast<unsigned>(plan.rails), bytes);
  });
}

/// A message of no more than a grain has no second piece, and its stages follow each other.
TEST_P(RailsTree, SmallMessagesHaveOnePiece) {
  const Plan plan = Plan::of(4096, 1, nodes(), 4, 4096, 8192, 8192);
  EXPECT_EQ(plan.chunks.count(plan.stripes.at(0)), 1u);
  EXPECT_EQ(plan.lag, 1u);
  EXPECT_EQ(Plan::pieces(1, 1), 0u);
}

/// Both trees get half of a large message, in pieces that do not shrink with the nodes.
TEST_P(RailsTree, LargeMessagesFillTheirSlots) {
  const Plan plan = Plan::of(std::size_t{64} << 20, 2, nodes(), 4, 4096, 16384, 32768);
  const std::uint32_t all = plan.chunks.count(plan.stripes.at(0));
  EXPECT_EQ(plan.chunks.bytes, 16384u);
  EXPECT_EQ(plan.lag, Plan::most_lag);
  EXPECT_EQ(plan.on_node, Plan::most_on_node);
  EXPECT_EQ(Plan::pieces(0, all), Plan::pieces(1, all));
}

/// A channel: what has been pushed into it, and in which steps pieces were pushed and used.
struct Channel {
  struct Sent {
    std::uint32_t place, step;
    unsigned terms;  // a bit per node
  };
  std::vector<Sent> sent;
  std::vector<std::uint32_t> used;  // the step of each

  /// Whether the slot was free by its user's signal of an earlier step.
  bool may_send(std::uint32_t step) const {
    return sent.size() < Plan::slots ||
           (used.size() + Plan::slots > sent.size() && used[sent.size() - Plan::slots] < step);
  }
  bool has_arrived(std::uint32_t step) const {
    return used.size() < sent.size() && sent[used.size()].step < step;
  }
};

/// All nodes in step, each with one rank that pushes to the rail's, and the rail's. So each wait
/// must be for an earlier step: that is what the kernel's proof says.
class Nodes {
 public:
  Nodes(const Plan& plan, std::uint32_t all)
      : plan_(plan),
        all_(all),
        terms_(at(plan.nodes), std::vector<int>(all)),
        results_(terms_),
        gathered_(terms_) {}

  void step(std::uint32_t j) {
    for (int node = 0; node < plan_.nodes; ++node) step(node, j);
  }
  void expect_end() const {
    for (std::size_t m = 0; m < terms_.size(); ++m)
      for (std::uint32_t place = 0; place < all_; ++place) {
        ASSERT_EQ(terms_[m][place], 1);
        ASSERT_EQ(results_[m][place], 1);
        ASSERT_EQ(gathered_[m][place], 1);
      }
    for (const auto& [name, channel] : channels_) {
      ASSERT_EQ(channel.used.size(), channel.sent.size());
      if (std::get<0>(name) == scattered || std::get<0>(name) == from_rail) {
        ASSERT_EQ(channel.sent.size(), all_);
      }
    }
  }

 private:
  enum Way : std::uint8_t { scattered, from_rail, reducing, results };
  static std::size_t at(int node) { return static_cast<std::size_t>(node); }
  unsigned every() const { return (1u << plan_.nodes) - 1; }

  void push(Way way, int from, int to, std::uint32_t number, Channel::Sent sent) {
    Channel& channel = channels_[{way, from, to}];
    ASSERT_EQ(number, channel.sent.size());
    ASSERT_TRUE(channel.may_send(sent.step)) << "step " << sent.step << " waits for itself";
    channel.sent.push_back(sent);
  }
  unsigned use(Way way, int from, int to, const RailPiece& piece, std::uint32_t number,
               std::uint32_t j) {
    Channel& channel = channels_[{way, from, to}];
    EXPECT_EQ(number, channel.used.size());
    if (!channel.has_arrived(j)) {
      ADD_FAILURE() << "node " << to << " waits in step " << j << " for one that is not earlier";
      return 0;
    }
    const Channel::Sent& sent = channel.sent[channel.used.size()];
    EXPECT_EQ(sent.place, piece.place);
    channel.used.push_back(j);
    return sent.terms;
  }

  void step(int node, std::uint32_t j) {
    const int tree = static_cast<int>(j % 2);
    const auto family = TreeRelatives::of({node, plan_.nodes, tree}),
               other = TreeRelatives::of({node, plan_.nodes, 1 - tree});
    const RailStep step = plan_.at(j, all_, family.depth, other.depth);
    const auto children = [&](const auto& body) {
      for (const int child : family.child)
        if (child != TreePlace::none) body(child);
    };
    if (const RailPiece& piece = step.scattered; piece.exists) {
      ASSERT_EQ(results_[at(node)][piece.place], 0) << "its input may be gone";
      push(scattered, node, node, piece.number, {piece.place, j, 1u << node});
    }
    unsigned sum = 0;
    if (const RailPiece& piece = step.added; piece.exists) {
      ASSERT_EQ(static_cast<int>(piece.place % 2), tree);
      ASSERT_EQ(results_[at(node)][piece.place], 0) << "its input may be gone";
      const std::uint32_t k = Plan::number_in_tree(piece);
      sum = use(scattered, node, node, piece, piece.number, j);
      children([&](int child) {
        const unsigned part = use(reducing, child, node, piece, k, j);
        EXPECT_EQ(sum & part, 0u);
        sum |= part;
      });
      ++terms_[at(node)][piece.place];
      if (!family.is_root()) push(reducing, node, family.parent, k, {piece.place, j, sum});
    }
    if (const RailPiece& piece = step.finished; piece.exists) {
      const std::uint32_t k = Plan::number_in_tree(piece);
      if (family.is_root()) {
        ASSERT_TRUE(step.added.exists);
        ASSERT_EQ(step.added.place, piece.place);
      } else {
        sum = use(results, family.parent, node, piece, k, j);
      }
      ASSERT_EQ(sum, every());
      ++results_[at(node)][piece.place];
      children([&](int child) { push(results, node, child, k, {piece.place, j, sum}); });
      push(from_rail, node, node, piece.number, {piece.place, j, sum});
    }
    if (const RailPiece& piece = step.gathered; piece.exists) {
      use(from_rail, node, node, piece, piece.number, j);
      ++gathered_[at(node)][piece.place];
    }
  }

  const Plan& plan_;
  std::uint32_t all_;
  std::map<std::tuple<Way, int, int>, Channel> channels_;
  std::vector<std::vector<int>> terms_, results_, gathered_;
};

TEST_P(RailsTree, EveryNodeGetsAllTermsOfEachPieceInTime) {
  for_each_plan([&](std::size_t, const Shape& shape, const Plan& plan) {
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const std::uint32_t all = plan.chunks.count(plan.stripes.at(block));
      Nodes along_rail(plan, all);
      for (std::uint32_t j = 0; j < plan.steps(all); ++j) {
        along_rail.step(j);
        if (HasFailure()) return;
      }
      along_rail.expect_end();
    }
  });
}

/// Else two trees would share a channel.
TEST_P(RailsTree, NoTwoNodesAreParentAndChildInBothTrees) {
  const int n = nodes();
  for (int node = 0; node < n; ++node) {
    const auto first = TreeRelatives::of({node, n, 0}), second = TreeRelatives::of({node, n, 1});
    if (!first.is_root()) {
      EXPECT_NE(first.parent, second.parent);
    }
  }
}

/// The network of a node carries twice the message at most.
TEST_P(RailsTree, NodesHaveFourEdgesAtMost) { EXPECT_LE(most_edges(nodes(), 1), 4); }

/// However many nodes there are, also where a slot of `rails` has no room for all of them.
TEST(RailsTreeSupport, ServesManyNodes) {
  const Algorithm* const tree = Registry::instance().find("rails_tree");
  ASSERT_NE(tree, nullptr);
  Topology topology;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.ranks = topology.nodes = 1000;
  EXPECT_TRUE(can_serve(*tree, {.count = 16}, topology));
  topology.nodes = 1;
  EXPECT_EQ(can_serve(*tree, {.count = 16}, topology).reason(), "the ranks are on one node");
}

}  // namespace
}  // namespace plait::rails_tree
