// How calls of `rails_ring` and `rails_tree` are cut, and where their pieces travel, for 2 to 17
// nodes, without memory or threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/nodes/rails_relay/ring.hpp"
#include "algorithms/nodes/rails_relay/trees.hpp"

namespace plait::rails_relay {
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

Plan plan_of(Form form, std::size_t bytes, int rails, int nodes, const Shape& shape) {
  const auto cut = form == Form::ring ? Ring::plan : Trees::plan;
  return cut(bytes, rails, nodes, shape.blocks, shape.grain, shape.node_slot, shape.rail_slot);
}

/// A block's stripe, as the kernel sees it.
class Stripe {
 public:
  Stripe(const Plan& plan, const Range& range)
      : plan_(plan),
        amount_(plan.form == Form::ring ? Ring::rounds(plan, range) : plan.pieces.count(range)) {}
  std::uint32_t rounds() const { return plan_.form == Form::ring ? amount_ : 1; }
  std::uint32_t pieces() const { return plan_.form == Form::ring ? ring().pieces() : amount_; }
  std::uint32_t steps() const {
    return plan_.form == Form::ring ? ring().steps() : trees().steps();
  }
  Step at(int node, std::uint32_t j) const {
    const int n = plan_.nodes, tree = static_cast<int>(j % 2);
    if (plan_.form == Form::ring) return ring().at(j, node, Ring::links(node, n));
    const auto depth = [&](int one) { return TreePlace{node, n, one}.depth(); };
    return trees().at(j, depth(tree), depth(1 - tree), Trees::links(node, n, tree));
  }
  /// What a call adds to the counters of a channel along the rail, in which a piece was sent in
  /// step j.
  std::uint32_t counted(std::uint32_t j) const {
    return plan_.form == Form::ring ? ring().turns()
                                    : Trees::pieces(static_cast<int>(j % 2), amount_);
  }

 private:
  Ring ring() const { return {plan_, amount_}; }
  Trees trees() const { return {plan_, amount_}; }
  const Plan& plan_;
  std::uint32_t amount_;
};

class RailsRelay : public testing::TestWithParam<std::tuple<Form, int>> {
 protected:
  static Form form() { return std::get<0>(GetParam()); }
  static int nodes() { return std::get<1>(GetParam()); }
  /// Calls body(bytes, shape, plan). Small slots cut a large message into very many pieces.
  template <class Body>
  static void for_each_plan(Body body) {
    for (const int rails : {1, 3})
      for (const std::size_t bytes : {1u, 63u, 64u, 65u, 129u, 1000u, 16385u, 99999u, 1'000'001u})
        for (const Shape& shape : shapes) {
          if (bytes > 20'000 && shape.node_slot < 4096) continue;
          SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(shape.blocks) +
                       " blocks, grain " + std::to_string(shape.grain));
          body(bytes, shape, plan_of(form(), bytes, rails, nodes(), shape));
        }
  }
};
std::string name_of_test(const testing::TestParamInfo<std::tuple<Form, int>>& test) {
  return (std::get<0>(test.param) == Form::ring ? "ring" : "trees") +
         std::to_string(std::get<1>(test.param));
}
INSTANTIATE_TEST_SUITE_P(Ring, RailsRelay,
                         testing::Combine(testing::Values(Form::ring), testing::Range(2, 8)),
                         name_of_test);
INSTANTIATE_TEST_SUITE_P(Trees, RailsRelay,
                         testing::Combine(testing::Values(Form::trees), testing::Range(2, 18)),
                         name_of_test);

TEST_P(RailsRelay, EveryByteIsInOnePiece) {
  for_each_plan([&](std::size_t bytes, const Shape& shape, const Plan& plan) {
    std::size_t end = 0;
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Range range = plan.stripes.at(block);
      for (std::uint32_t place = 0; place < Stripe(plan, range).pieces(); ++place) {
        const Range piece = plan.bytes_of(place, range);
        ASSERT_EQ(piece.begin % Plan::pack == 0 || piece.size() == 0, true);
        ASSERT_EQ(piece.begin, end);
        ASSERT_LE(piece.size(), std::min(shape.node_slot, shape.rail_slot));
        end = piece.end;
      }
    }
    EXPECT_EQ(end, plan.blocks.each);
    EXPECT_GE(plan.blocks.each * static_cast<unsigned>(plan.rails), bytes);
  });
}

/// A message of no more than a grain has no second piece to wait for.
TEST_P(RailsRelay, StagesOfSmallMessagesFollowEachOther) {
  const Plan plan = plan_of(form(), 4096, 1, nodes(), {4, 4096, 8192, 8192});
  EXPECT_EQ(plan.lag, 1u);
  EXPECT_EQ(plan.on_node, 1u);
}

/// Slots are as full with many nodes as with few.
TEST_P(RailsRelay, LargeMessagesFillTheirSlots) {
  const Plan plan = plan_of(form(), std::size_t{64} << 20, 2, nodes(), {4, 4096, 16384, 32768});
  EXPECT_GE(plan.pieces.bytes, 16384u - 1024);
  EXPECT_EQ(plan.lag, Plan::most_lag);
  EXPECT_EQ(plan.on_node, Plan::most_on_node);
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
  Nodes(const Plan& plan, const Stripe& stripe)
      : plan_(plan),
        stripe_(stripe),
        terms_(at(plan.nodes), std::vector<int>(stripe.pieces())),
        results_(terms_),
        gathered_(terms_) {}

  void step(std::uint32_t j) {
    for (int node = 0; node < plan_.nodes; ++node) step(node, j);
  }
  void expect_end() const {
    const std::vector<int> once(stripe_.pieces(), 1);
    for (const auto* counts : {&terms_, &results_, &gathered_})
      for (const std::vector<int>& of_node : *counts) ASSERT_EQ(of_node, once);
    for (const auto& [name, channel] : channels_) {
      ASSERT_EQ(channel.used.size(), channel.sent.size());
      const bool on_node = std::get<0>(name) == scattered || std::get<0>(name) == from_rail;
      ASSERT_EQ(channel.sent.size(),
                on_node ? stripe_.pieces() : stripe_.counted(channel.sent[0].step));
    }
  }

 private:
  enum Way : std::uint8_t { scattered, from_rail, sums, results_of_trees };
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
    const Step step = stripe_.at(node, j);
    const Links& links = step.links;
    const Way results = plan_.form == Form::ring ? sums : results_of_trees;
    const unsigned own = 1u << node;
    if (const RailPiece& piece = step.scattered; piece.exists) {
      ASSERT_EQ(results_[at(node)][piece.place], 0) << "its input may be gone";
      push(scattered, node, node, piece.number, {piece.place, j, own});
    }
    unsigned sum = 0;
    if (const RailPiece& piece = step.added; piece.exists) {
      ASSERT_EQ(results_[at(node)][piece.place], 0) << "its input may be gone";
      sum = use(scattered, node, node, piece, piece.number, j);
      for (const int from : links.sums_from) {
        if (from == Links::none) continue;
        const unsigned part = use(sums, from, node, piece, step.sums_in, j);
        EXPECT_EQ(sum & part, 0u);
        sum |= part;
      }
      ++terms_[at(node)][piece.place];
      if (links.sums_to != Links::none)
        push(sums, node, links.sums_to, step.sums_out, {piece.place, j, sum});
    }
    if (const RailPiece& piece = step.finished; piece.exists) {
      if (links.results_from == Links::none) {
        ASSERT_TRUE(step.added.exists && links.sums_to == Links::none);
        ASSERT_EQ(step.added.place, piece.place);
      } else {
        sum = use(results, links.results_from, node, piece, step.results_in, j);
      }
      ASSERT_EQ(sum, every());
      ++results_[at(node)][piece.place];
      for (const int to : links.results_to)
        if (to != Links::none) push(results, node, to, step.results_out, {piece.place, j, sum});
      push(from_rail, node, node, piece.number, {piece.place, j, sum});
    }
    if (const RailPiece& piece = step.gathered; piece.exists) {
      use(from_rail, node, node, piece, piece.number, j);
      ++gathered_[at(node)][piece.place];
    }
  }

  const Plan& plan_;
  const Stripe& stripe_;
  std::map<std::tuple<Way, int, int>, Channel> channels_;
  std::vector<std::vector<int>> terms_, results_, gathered_;
};

TEST_P(RailsRelay, EveryNodeGetsAllTermsOfEachPieceInTime) {
  std::uint32_t most_rounds = 0;
  for_each_plan([&](std::size_t, const Shape& shape, const Plan& plan) {
    for (unsigned block = 0; block < shape.blocks; ++block) {
      const Stripe stripe(plan, plan.stripes.at(block));
      most_rounds = std::max(most_rounds, stripe.rounds());
      Nodes along_rail(plan, stripe);
      for (std::uint32_t j = 0; j < stripe.steps(); ++j) {
        along_rail.step(j);
        if (HasFailure()) return;
      }
      along_rail.expect_end();
    }
  });
  EXPECT_TRUE(form() == Form::trees || most_rounds > 1) << "no message took several rounds";
}

/// Else two trees would share a channel.
TEST_P(RailsRelay, NoTwoNodesAreParentAndChildInBothTrees) {
  const int n = nodes();
  for (int node = 0; node < n; ++node) {
    const Links first = Trees::links(node, n, 0), second = Trees::links(node, n, 1);
    EXPECT_TRUE(first.sums_to == Links::none || first.sums_to != second.sums_to);
  }
}

/// The network of a node carries twice the message at most.
TEST_P(RailsRelay, NodesHaveFourEdgesOfTreesAtMost) { EXPECT_LE(most_edges(nodes(), 1), 4); }

/// However many nodes there are, also where a slot of `rails` has no room for all of them.
TEST(RailsRelaySupport, ServesManyNodes) {
  Topology topology;
  topology.scratch_limit = std::size_t{128} << 20;
  topology.ranks = 1000;
  for (const auto& [name, serves] : {std::pair("rails_ring", true),
                                     {"rails_tree", true},
                                     {"rails_doubling", true},
                                     {"leaders_doubling", true},
                                     {"rails", false}}) {
    const Algorithm* const algorithm = Registry::instance().find(name);
    ASSERT_NE(algorithm, nullptr);
    topology.nodes = 1000;
    EXPECT_EQ(static_cast<bool>(can_serve(*algorithm, {.count = 16}, topology)), serves) << name;
    topology.nodes = 1;
    EXPECT_EQ(can_serve(*algorithm, {.count = 16}, topology).reason(), "the ranks are on one node");
  }
}

}  // namespace
}  // namespace plait::rails_relay
