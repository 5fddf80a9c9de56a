// The schedules of recursive doubling and the slices of copy_engine with 1 to 16 ranks, simulated
// on the host without memory or threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "algorithms/all_reduce/copy_engine/layout.hpp"
#include "algorithms/blocks/patterns/doubling_schedule.hpp"

namespace plait {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A partial result as it travels: the ranks whose terms it holds.
using Terms = std::multiset<int>;

class Doubling : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Doubling, testing::Range(1, 17));

TEST_P(Doubling, EveryRankEndsWithEveryTermOnce) {
  const int n = GetParam();
  struct Message {
    int from;
    Terms terms;
  };
  std::vector<std::vector<std::deque<Message>>> inbox(at(n));  // [rank][step]
  std::vector<Terms> partial(at(n));
  std::vector<int> stage(at(n), 0);
  for (int rank = 0; rank < n; ++rank) {
    partial[at(rank)] = {rank};
    inbox[at(rank)].resize(at(DoublingSchedule::of(rank, n).steps()));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < n; ++rank) {
      const auto schedule = DoublingSchedule::of(rank, n);
      int& now = stage[at(rank)];
      if (now == schedule.stages) continue;
      if (const auto in = schedule.incoming(now); in.exists()) {
        auto& box = inbox[at(rank)][at(in.step)];
        if (box.empty()) continue;
        EXPECT_EQ(box.front().from, in.peer);
        if (schedule.is_guest) partial[at(rank)] = box.front().terms;
        else partial[at(rank)].insert(box.front().terms.begin(), box.front().terms.end());
        box.pop_front();
      }
      if (const auto out = schedule.outgoing(now); out.exists()) {
        auto& box = inbox[at(out.peer)][at(out.step)];
        EXPECT_TRUE(box.empty()) << "a slot was overwritten";
        box.push_back({rank, partial[at(rank)]});
      }
      ++now;
      moved = true;
    }
  }
  Terms everybody;
  for (int rank = 0; rank < n; ++rank) everybody.insert(rank);
  for (int rank = 0; rank < n; ++rank) {
    EXPECT_EQ(stage[at(rank)], DoublingSchedule::of(rank, n).stages) << "rank " << rank;
    EXPECT_EQ(partial[at(rank)], everybody) << "rank " << rank;
  }
}

/// Sizes around slices, chunks and their grain.
std::vector<std::size_t> sizes_around(int ranks) {
  std::vector<std::size_t> sizes = {1, 63, 1000, 123457};
  for (const std::size_t slice : {64, 128, 192, 6400})
    for (const int off : {0, 1, 2, 64}) sizes.push_back(slice * at(ranks) + at(off) - 1);
  return sizes;
}

class Slices : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Slices, testing::Range(1, 17));

TEST_P(Slices, LandingPlacesCoverAllButTheTail) {
  const int ranks = GetParam();
  for (const std::size_t bytes : sizes_around(ranks)) {
    const auto landing = copy_engine::Landing::of(bytes, ranks);
    std::size_t end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(landing.at(rank).begin, end);
      EXPECT_EQ(landing.at(rank).size(), landing.slice)
          << "a term of any slice must fit into any place";
      end = landing.at(rank).end;
    }
    EXPECT_EQ(landing.slice % copy_engine::grain, 0u);
    EXPECT_EQ(landing.tail.begin, end);
    EXPECT_EQ(landing.tail.end, bytes);
    EXPECT_LT(landing.tail.size(), copy_engine::grain * at(ranks));
    EXPECT_EQ(landing.chunks.at(0).end, landing.chunks.at(1).begin);
    EXPECT_EQ(landing.chunks.at(1).end, landing.slice);
    EXPECT_EQ(landing.chunks.at(1).begin % copy_engine::grain, 0u);
  }
}

TEST_P(Slices, InPlaceTheyCoverTheMessage) {
  const int ranks = GetParam();
  for (const std::size_t bytes : sizes_around(ranks)) {
    std::size_t end = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto layout = copy_engine::InPlace::of(bytes, rank, ranks);
      for (std::size_t chunk = 0; chunk < copy_engine::InPlace::chunk_count; ++chunk) {
        const Range range = layout.chunks.at(chunk);
        if (range.size() == 0) continue;
        EXPECT_EQ(layout.slice.begin + range.begin, end);
        EXPECT_EQ(end % copy_engine::grain, 0u);
        end = layout.slice.begin + range.end;
      }
    }
    EXPECT_EQ(end, bytes);
  }
}

}  // namespace
}  // namespace plait
