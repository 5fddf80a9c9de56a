// The plan of a batch of messages: which blocks move which, and that no block has far more to do.
#include "algorithms/blocks/flags/batch_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace plait::test {
namespace {

/// The promises of a plan, whatever the sizes.
void expect_sound(const BatchPlan& plan, const std::vector<std::size_t>& sizes, unsigned blocks) {
  ASSERT_EQ(plan.places.size(), sizes.size());
  ASSERT_GE(plan.blocks, 1u);
  ASSERT_LE(plan.blocks, blocks);
  std::vector<int> seen(sizes.size());
  std::vector<int> messages(plan.blocks);
  unsigned last = 0;
  for (const BatchPlan::Place& place : plan.places) {
    ++seen[place.message];
    ASSERT_GE(place.first_block, last) << "not in order";
    last = place.first_block;
    ASSERT_LE(place.first_block + place.blocks, plan.blocks);
    for (unsigned block = place.first_block; block < place.first_block + place.blocks; ++block) {
      ++messages[block];
      if (place.blocks > 1) {
        ASSERT_EQ(messages[block], 1) << "a long message shares block " << block;
      }
    }
  }
  EXPECT_THAT(seen, testing::Each(1));
  EXPECT_THAT(messages, testing::Each(testing::Ge(1))) << "a block without work";
}

std::size_t fullest(const BatchPlan& plan, const std::vector<std::size_t>& sizes,
                    std::size_t overhead) {
  std::vector<std::size_t> load(plan.blocks);
  for (const BatchPlan::Place& place : plan.places)
    for (unsigned block = place.first_block; block < place.first_block + place.blocks; ++block)
      load[block] += (sizes[place.message] + place.blocks - 1) / place.blocks + overhead;
  return *std::max_element(load.begin(), load.end());
}

TEST(BatchPlan, EqualMessages) {
  const std::vector<std::size_t> sizes(64, 2048);
  const BatchPlan plan = plan_batch(sizes, 128, 256);
  expect_sound(plan, sizes, 128);
  EXPECT_EQ(plan.blocks, 128u);
  for (const auto& place : plan.places) EXPECT_EQ(place.blocks, 2u);
}

TEST(BatchPlan, ManyShortOnesShareBlocks) {
  const std::vector<std::size_t> sizes(1000, 3);
  const BatchPlan plan = plan_batch(sizes, 128, 10);
  expect_sound(plan, sizes, 128);
  EXPECT_LE(fullest(plan, sizes, 10), 8u * 13);
}

TEST(BatchPlan, OneLongAndManyShort) {
  std::vector<std::size_t> sizes(50, 10);
  sizes[17] = 100000;
  const BatchPlan plan = plan_batch(sizes, 64, 20);
  expect_sound(plan, sizes, 64);
  EXPECT_EQ(plan.places.front().message, 17u);
  EXPECT_GT(plan.places.front().blocks, 55u);
}

TEST(BatchPlan, RandomSizesAreSpreadWell) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::size_t> sizes(1 + random() % 300);
    for (std::size_t& size : sizes)
      size = 1 + random() % (round % 3 == 0 ? 20 : round % 3 == 1 ? 5000 : 300);
    const unsigned blocks = 1 + random() % 128;
    const std::size_t overhead = random() % 300;
    const BatchPlan plan = plan_batch(sizes, blocks, overhead);
    expect_sound(plan, sizes, blocks);
    // No plan has less than the mean in its fullest block. This one is not far from it: a message
    // more, or twice the overhead.
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), overhead * sizes.size());
    const std::size_t longest = *std::max_element(sizes.begin(), sizes.end()) + overhead;
    EXPECT_LE(fullest(plan, sizes, overhead),
              2 * (all / blocks) + std::min(longest, all) + 2 * overhead + 2);
  }
}

TEST(BatchPlan, OneBlockTakesAll) {
  const std::vector<std::size_t> sizes{5, 1, 100, 7};
  const BatchPlan plan = plan_batch(sizes, 1, 4);
  expect_sound(plan, sizes, 1);
}

}  // namespace
}  // namespace plait::test
