// How a call of `rails` is cut, for 1 to 4 rails and 2 to 5 nodes, without memory or threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/contract/algorithm.hpp"
#include "algorithms/nodes/rails/plan.hpp"
#include "algorithms/nodes/rails/quantized_kernel.hpp"

namespace plait::rails {
namespace {

static_assert(Channels::can_have(Plan::slots));

/// What a call does with its blocks.
struct Kind {
  const char* name;
  Plan::Work work;
};
constexpr Kind kinds[] = {{"all_reduce", {true, true, false, false}},
                          {"all_reduce_everywhere", {true, true, true, false}},
                          {"all_reduce_by_all_ranks", {true, false, true, true}},
                          {"reduce_scatter", {true, false, false, false}},
                          {"all_gather", {false, true, false, false}}};

/// Shapes of a launch and its slots, from the least that there may be.
struct Shape {
  unsigned blocks;
  std::size_t grain;
  std::uint32_t node_slot, rail_slot;  // bytes
};

class Rails : public testing::TestWithParam<std::tuple<int, int, Kind>> {
 protected:
  int rails() const { return kind().work.by_all_ranks ? 1 : std::get<0>(GetParam()); }
  int nodes() const { return std::get<1>(GetParam()); }
  const Kind& kind() const { return std::get<2>(GetParam()); }
  bool is_all_reduce() const {
    return kind().work.reduces && (kind().work.gathers || kind().work.by_all_ranks);
  }
  unsigned blocks() const { return static_cast<unsigned>(rails() * nodes()); }

  std::vector<Shape> shapes() const {
    const auto n = static_cast<std::uint32_t>(nodes());
    return {{1, Plan::pack, 64 * n, 64 * n},
            {2, 2048, 64 << 10, 128 << 10},
            {4, 8192, 65536 + 192, 3000},
            {16, 16384, 16 << 10, 16 << 10}};
  }
  Plan plan(std::size_t bytes, const Shape& shape) const {
    return Plan::of(bytes, rails(), nodes(), kind().work, shape.blocks, shape.grain,
                    shape.node_slot, shape.rail_slot);
  }
  /// Calls body(bytes, shape, plan). Small slots cut a large message into very many chunks.
  template <class Body>
  void for_each_plan(Body body) const {
    for (const std::size_t bytes :
         {0u, 1u, 3u, 63u, 64u, 65u, 1000u, 4096u, 16385u, 99999u, 1u << 20, 5'000'001u})
      for (const Shape& shape : shapes()) {
        if (bytes > 100'000 && shape.node_slot < 1000) continue;
        SCOPED_TRACE(std::to_string(bytes) + " bytes, " + std::to_string(shape.blocks) +
                     " blocks, grain " + std::to_string(shape.grain));
        body(bytes, shape, plan(bytes, shape));
      }
  }
};
INSTANTIATE_TEST_SUITE_P(All, Rails,
                         testing::Combine(testing::Range(1, 5), testing::Range(2, 6),
                                          testing::ValuesIn(kinds)),
                         [](const auto& test) {
                           return std::string(std::get<2>(test.param).name) + "_" +
                                  std::to_string(std::get<0>(test.param)) + "_rails_" +
                                  std::to_string(std::get<1>(test.param)) + "_nodes";
                         });

/// Chunk k of a stripe, as the kernel cuts it from a block: it may end early.
Range in_block(const Range& block, const Range& chunk) {
  return {block.begin + std::min(chunk.begin, block.size()),
          block.begin + std::min(chunk.end, block.size())};
}

TEST_P(Rails, EveryByteIsInOneChunk) {
  for_each_plan([&](std::size_t bytes, const Shape& shape, const Plan& plan) {
    std::vector<Range> all;
    for (unsigned block = 0; block < blocks(); ++block)
      for (unsigned stripe = 0; stripe < shape.blocks; ++stripe) {
        const Range part = plan.stripes.at(stripe);
        for (std::uint32_t k = 0; k < plan.chunks.count(part); ++k) {
          const Range chunk = plan.chunks.at(part, k);
          ASSERT_EQ(chunk.begin % Plan::pack, 0u) << "two chunks share a pack";
          const Range range = in_block(plan.block(block), chunk);
          if (range.size() != 0) all.push_back(range);
        }
      }
    std::sort(all.begin(), all.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::size_t end = 0;
    for (const Range& range : all) {
      ASSERT_EQ(range.begin, end);
      end = range.end;
    }
    EXPECT_EQ(end, is_all_reduce() ? bytes : bytes * blocks());
  });
}

/// A slot on the node has the chunks of all nodes, and one along the rail has them if all nodes
/// reduce all blocks.
TEST_P(Rails, ChunksFitTheirSlots) {
  for_each_plan([&](std::size_t, const Shape& shape, const Plan& plan) {
    const auto n = static_cast<std::size_t>(nodes());
    EXPECT_LE(plan.chunks.bytes * n, shape.node_slot);
    EXPECT_LE(plan.chunks.bytes * (kind().work.everywhere ? n : 1), shape.rail_slot);
    EXPECT_EQ(plan.chunks.bytes % Plan::pack, 0u);
    EXPECT_GT(plan.chunks.bytes, 0u);
  });
}

/// On the host, where a stripe may be cut at each pack, small messages are not cut further than
/// frames need.
TEST_P(Rails, SmallMessagesHaveFewChunks) {
  const Shape shape{1, Plan::pack, 64 << 10, 64 << 10};
  for (const std::size_t bytes : {0u, 1u, 512u, 2048u, 3000u}) {
    const Plan one = plan(bytes, shape);
    EXPECT_LE(one.chunks.count(one.stripes.at(0)), 1u) << bytes << " bytes";
  }
  const auto n = static_cast<std::size_t>(kind().work.everywhere ? nodes() : 1);
  for (const std::size_t bytes : {4096u, 8192u})
    EXPECT_LE(plan(bytes, shape).chunks.bytes * n, most_inline_bytes) << bytes << " bytes";
}

/// A chunk is used in a later step than the one that pushes it, so a step never waits for itself,
/// and before its sender needs the slot again.
TEST_P(Rails, StagesLieApartByLessThanTheSlots) {
  for_each_plan([&](std::size_t, const Shape&, const Plan& plan) {
    for (unsigned i = 0; i < Plan::ends; i += 2) {
      const Plan::End from = plan.end(i, true), to = plan.end(i + 1, true);
      ASSERT_TRUE(from.sends && !to.sends && from.way == to.way);
      ASSERT_EQ(from.group == Plan::Group::rail, to.group == Plan::Group::rail);
      ASSERT_EQ(from.used, to.used);
      if (!from.used) continue;
      if (kind().work.by_all_ranks) {
        EXPECT_EQ(from.group, to.group) << "end " << i;
      }
      EXPECT_GE(to.at, from.at + 1) << "end " << i;
      EXPECT_LT(to.at, from.at + Plan::slots) << "end " << i;
    }
  });
}

/// A rank without a rail gives its input to those that have one, and gets the result from them.
TEST_P(Rails, RanksWithoutARailHaveTwoEnds) {
  if (kind().work.by_all_ranks) return;  // each rank has one
  const Plan plan = this->plan(4096, shapes()[1]);
  for (unsigned i = 0; i < Plan::ends; ++i) {
    const Plan::End end = plan.end(i, false);
    const bool gives = end.group == Plan::Group::rails_here && end.sends && kind().work.reduces,
               gets = end.group == Plan::Group::rails_here && !end.sends && kind().work.gathers;
    EXPECT_EQ(end.used, gives || gets) << "end " << i;
  }
}

/// The work of the last stage on the last chunk is in the last step that the kernel counts.
TEST_P(Rails, StagesFollowEachOther) {
  for_each_plan([&](std::size_t, const Shape&, const Plan& plan) {
    EXPECT_LE(plan.at.node, plan.at.rail);
    EXPECT_LE(plan.at.rail, plan.at.collect);
    EXPECT_LE(plan.at.collect, plan.at.gather);
    for (unsigned i = 0; i < Plan::ends; ++i) {
      const Plan::End end = plan.end(i, true);
      EXPECT_TRUE(!end.used || end.at <= plan.at.gather) << "end " << i;
    }
  });
}

/// A communicator of many nodes may have channels so small that no chunk fits them.
TEST(RailsSupport, NeedsAPackOfEachNodePerSlot) {
  for (const std::string name : {"rails", "leaders", "rails_oneshot"}) {
    const Algorithm* const algorithm = Registry::instance().find(name);
    ASSERT_NE(algorithm, nullptr);
    for (const std::size_t limit : {std::size_t{0}, std::size_t{1} << 20, std::size_t{128} << 20})
      for (int nodes = 2; nodes <= 128; nodes += nodes < 20 ? 1 : 27) {
        Topology topology;
        topology.ranks = topology.nodes = nodes;
        topology.scratch_limit = limit;
        const auto node_slot = node_channel_memory(topology).bytes / Plan::slots,
                   rail_slot = channel_memory(topology).bytes / Plan::slots;
        const bool has_room =
            std::min(node_slot, rail_slot) >= Plan::pack * static_cast<unsigned>(nodes);
        EXPECT_EQ(static_cast<bool>(can_serve(*algorithm, {.count = 16}, topology)), has_room)
            << nodes << " nodes, limit " << limit;
        if (has_room) {
          EXPECT_GT(Plan::of(4096, 1, nodes, {true, true, true, false}, 1, 64, node_slot, rail_slot)
                        .chunks.bytes,
                    0u);
        }
        EXPECT_TRUE(has_room || limit < std::size_t{128} << 20 || nodes > 64) << nodes;
      }
  }
}

/// A block of one thread, which counts the bytes that it stores outside of its own buffer.
template <std::size_t Bytes>
struct CountingThread {
  static constexpr std::size_t pack_bytes = Bytes;
  unsigned thread() const { return 0; }
  unsigned threads() const { return 1; }
  template <class P>
  P load(const P* from) const {
    return *from;
  }
  template <class P>
  void store(P* to, const P& pack) {
    *to = pack;
    const auto* const at = reinterpret_cast<const std::byte*>(to);
    if (at < own.data() || at >= own.data() + own.size()) stored += sizeof(P);
  }
  std::span<const std::byte> own;
  std::size_t stored = 0;
};

/// What a rank that sends `values` values to two others stores into their slots.
template <class Code, std::size_t Bytes>
std::size_t stored_bytes(std::size_t values) {
  using Wire = quantized::CodedWire<Code, CountingThread<Bytes>>;
  const std::size_t packs = values * sizeof(float) / Bytes;
  std::vector<Pack<float, Bytes>> data(packs), slots[3] = {data, data, data};
  for (std::size_t i = 0; i < values; ++i)
    data[i * sizeof(float) / Bytes].lane[i % (Bytes / sizeof(float))] = static_cast<float>(i * i);
  CountingThread<Bytes> dev{std::as_bytes(std::span(data))};
  Wire::push(dev, {data.front().lane, values}, {0, packs}, 0, 3, 1,
             [&](int slot) { return reinterpret_cast<std::byte*>(slots[slot].data()); });
  EXPECT_EQ(dev.stored, 2 * Wire::bytes(packs));
  return dev.stored;
}

TEST(Quantized, StoresAsFewBytesAsItSays) {
  constexpr std::size_t values = 1280, f32 = 2 * values * sizeof(float);
  EXPECT_EQ((stored_bytes<bf16, 16>(values)), f32 / 2);
  EXPECT_EQ((stored_bytes<bf16, 64>(values)), f32 / 2);
  EXPECT_EQ((stored_bytes<f16, 16>(values)), f32 / 2);
  EXPECT_EQ((stored_bytes<std::int8_t, 16>(values)), f32 * 9 / 32);
  EXPECT_EQ((stored_bytes<std::int8_t, 64>(values)), f32 * 9 / 32);
}

}  // namespace
}  // namespace plait::rails
