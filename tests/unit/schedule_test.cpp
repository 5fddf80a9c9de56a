// The schedules of 1 to 17 ranks, simulated on the host without memory or threads: chunks,
// recursive doubling, halving and doubling, trees, and the slices of copy_engine.
#include "algorithms/all_reduce/halving_doubling/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/all_reduce/copy_engine/layout.hpp"
#include "algorithms/all_reduce/tree/schedule.hpp"
#include "algorithms/blocks/channels/chunks.hpp"
#include "algorithms/blocks/patterns/double_tree.hpp"
#include "algorithms/blocks/patterns/doubling_schedule.hpp"

namespace plait {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A chunk as it travels: which ranks' terms it holds.
using Terms = std::multiset<int>;

Terms all_terms(int n) {
  Terms everybody;
  for (int rank = 0; rank < n; ++rank) everybody.insert(rank);
  return everybody;
}

TEST(Chunks, CoverARangeAndFitASlot) {
  for (const std::size_t size : {0u, 1u, 64u, 1000u, 100'000u})
    for (const std::uint32_t slot : {1024u, 65536u}) {
      const Range range{640, 640 + size};
      const Chunks chunks = Chunks::of(size, 8, 512, slot);
      EXPECT_TRUE(chunks.bytes % 512 == 0 && chunks.bytes >= 512 && chunks.bytes <= slot);
      std::size_t end = range.begin;
      for (std::uint32_t k = 0; k < chunks.count(range); ++k) {
        EXPECT_EQ(chunks.at(range, k).begin, end);
        EXPECT_GT(chunks.at(range, k).size(), 0u);
        end = chunks.at(range, k).end;
      }
      EXPECT_EQ(end, range.end);
    }
}

class Doubling : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Doubling, testing::Range(1, 18));

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
  for (int rank = 0; rank < n; ++rank) {
    EXPECT_EQ(stage[at(rank)], DoublingSchedule::of(rank, n).stages) << "rank " << rank;
    EXPECT_EQ(partial[at(rank)], all_terms(n)) << "rank " << rank;
  }
}

class HalvingDoubling : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HalvingDoubling, testing::Range(1, 18));

/// The output of each rank, one set of terms for each grain of bytes.
TEST_P(HalvingDoubling, EverySegmentHoldsEveryTermOnceOnEveryRank) {
  using halving_doubling::Schedule;
  const int n = GetParam();
  for (const std::size_t grains : {0u, 1u, 3u, 16u, 37u}) {
    const Range stripe{5 * Schedule::grain, (5 + grains) * Schedule::grain};
    const auto cells = [&](Range range) {  // of a rank's output
      EXPECT_TRUE(range.begin % Schedule::grain == 0 && range.begin >= stripe.begin &&
                  range.end <= stripe.end);
      return std::pair{(range.begin - stripe.begin) / Schedule::grain,
                       (range.end - stripe.begin) / Schedule::grain};
    };
    std::vector<std::vector<Terms>> output(at(n));
    for (int rank = 0; rank < n; ++rank) output[at(rank)].assign(grains, {rank});
    std::vector<int> now(at(n), 0), finished(grains, 0);
    std::vector<bool> sent(at(n), false);
    std::map<std::tuple<int, int, unsigned>, std::pair<Range, std::vector<Terms>>>
        messages;  // from, to, way
    for (bool moved = true; moved;) {
      moved = false;
      for (int rank = 0; rank < n; ++rank) {
        const Schedule schedule{{rank, n}};
        if (now[at(rank)] == schedule.exchanges()) continue;
        const auto x = schedule.exchange(now[at(rank)], stripe);
        auto& mine = output[at(rank)];
        if (!sent[at(rank)]) {
          const auto [begin, end] = cells(x.out);
          std::vector<Terms> data;
          for (std::size_t c = begin; c < end; ++c) data.push_back(mine[c]);
          EXPECT_TRUE(messages.try_emplace({rank, x.peer, x.way}, x.out, data).second)
              << "a channel is used twice";
          sent[at(rank)] = moved = true;
        }
        const auto message = messages.find({x.peer, rank, x.way});
        if (message == messages.end()) continue;
        const auto& [range, data] = message->second;
        EXPECT_EQ(range.size(), x.in.size());
        EXPECT_TRUE(x.in.size() == 0 || range.begin == x.in.begin);
        for (auto [c, end] = cells(x.in); c < end; ++c) {
          const Terms& other = data[c - cells(range).first];
          if (x.reduces) mine[c].insert(other.begin(), other.end());
          else mine[c] = other;
          if (x.finishes) ++finished[c];
          EXPECT_EQ(mine[c] == all_terms(n), x.finishes || !x.reduces);
        }
        ++now[at(rank)];
        sent[at(rank)] = false;
        moved = true;
      }
    }
    for (int rank = 0; rank < n; ++rank) {
      EXPECT_EQ(now[at(rank)], (Schedule{{rank, n}}.exchanges()));
      for (const Terms& cell : output[at(rank)]) EXPECT_EQ(cell, all_terms(n));
    }
    for (const int times : finished) EXPECT_EQ(times, n == 1 ? 0 : 1);
  }
}

class Trees : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Trees, testing::Range(1, 18));

TEST_P(Trees, SpanAllRanks) {
  const int n = GetParam();
  for (int t = 0; t < 2; ++t) {
    int roots = 0, deepest = 0;
    for (int rank = 0; rank < n; ++rank) {
      const TreePlace place{rank, n, t};
      EXPECT_EQ(place.rank_at(place.position()), rank);
      int hops = 0, root = rank;
      for (; TreePlace{root, n, t}.parent() != TreePlace::none && hops <= n; ++hops)
        root = TreePlace{root, n, t}.parent();
      EXPECT_EQ(hops, place.depth());
      deepest = std::max(deepest, hops);
      roots += place.parent() == TreePlace::none ? 1 : 0;
      for (int which = 0; which < 2; ++which)
        if (const int child = place.child(which); child != TreePlace::none) {
          EXPECT_EQ((TreePlace{child, n, t}.parent()), rank);
        }
      EXPECT_TRUE(place.child(1) == TreePlace::none ||
                  (place.child(0) != TreePlace::none && place.child(0) != place.child(1)));
      if (const int parent = place.parent(); parent != TreePlace::none) {
        const TreePlace above{parent, n, t};
        EXPECT_EQ((above.child(0) == rank ? 1 : 0) + (above.child(1) == rank ? 1 : 0), 1);
      }
    }
    EXPECT_EQ(roots, 1);
    EXPECT_EQ(deepest, TreePlace::height(n));
  }
}

TEST_P(Trees, NobodyHasChildrenInBoth) {
  const int n = GetParam();
  for (int rank = 0; rank < n; ++rank)
    EXPECT_FALSE((TreePlace{rank, n, 0}.child(0) != TreePlace::none) &&
                 (TreePlace{rank, n, 1}.child(0) != TreePlace::none));
}

/// Steps with slots and credits, as the kernel does them.
class TreeRun {
 public:
  TreeRun(int n, int which, std::uint32_t chunks)
      : n_(n), output_(at(n), std::vector<Terms>(chunks)), now_(at(n), 0) {
    for (int rank = 0; rank < n; ++rank) {
      relatives_.push_back(TreeRelatives::of({rank, n, which}));
      steps_.push_back(tree::Steps::of(chunks, relatives_.back().depth));
    }
  }
  /// Runs ranks as long as one can go on; in an order of its own.
  void run(bool backwards) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int i = 0; i < n_; ++i)
        while (advance(backwards ? n_ - 1 - i : i)) moved = true;
    }
  }
  bool finished(int rank) const { return now_[at(rank)] == steps_[at(rank)].count(); }
  const std::vector<std::vector<Terms>>& output() const { return output_; }
  bool empty() const {
    return std::all_of(channels_.begin(), channels_.end(),
                       [](const auto& channel) { return channel.second.empty(); });
  }

 private:
  using Channel = std::deque<Terms>;
  Channel& channel(int way, int from, int to) { return channels_[{way, from, to}]; }

  bool advance(int rank) {
    if (finished(rank)) return false;
    const TreeRelatives& family = relatives_[at(rank)];
    const tree::Steps& steps = steps_[at(rank)];
    const std::uint32_t j = now_[at(rank)];
    const bool up = steps.goes_up(j), down = !family.is_root() && steps.comes_down(j),
               tells = down || (up && family.is_root());
    for (const int child : family.child) {
      if (child == TreePlace::none) continue;
      if (up && channel(0, child, rank).empty()) return false;
      if (tells && channel(1, rank, child).size() == tree::Steps::slots) return false;
    }
    if (up && !family.is_root() && channel(0, rank, family.parent).size() == tree::Steps::slots)
      return false;
    if (down && channel(1, family.parent, rank).empty()) return false;

    const auto tell = [&](std::uint32_t k, const Terms& result) {
      output_[at(rank)][k] = result;
      for (const int child : family.child)
        if (child != TreePlace::none) channel(1, rank, child).push_back(result);
    };
    if (up) {
      Terms sum = {rank};
      for (const int child : family.child)
        if (child != TreePlace::none) {
          const Terms part = take(channel(0, child, rank));
          sum.insert(part.begin(), part.end());
        }
      if (family.is_root()) tell(j, sum);
      else channel(0, rank, family.parent).push_back(sum);
    }
    if (down) tell(j - steps.lag, take(channel(1, family.parent, rank)));
    ++now_[at(rank)];
    return true;
  }
  static Terms take(Channel& channel) {
    Terms terms = channel.front();
    channel.pop_front();
    return terms;
  }

  int n_;
  std::vector<TreeRelatives> relatives_;
  std::vector<tree::Steps> steps_;
  std::map<std::tuple<int, int, int>, Channel> channels_;  // way, from, to
  std::vector<std::vector<Terms>> output_;
  std::vector<std::uint32_t> now_;
};

TEST_P(Trees, EveryChunkHoldsEveryTermOnceOnEveryRank) {
  const int n = GetParam();
  for (int which = 0; which < 2; ++which)
    for (const std::uint32_t chunks : {0u, 1u, 2u, 5u, 40u})
      for (const bool backwards : {false, true}) {
        TreeRun run(n, which, chunks);
        run.run(backwards);
        EXPECT_TRUE(run.empty());
        for (int rank = 0; rank < n; ++rank) {
          EXPECT_TRUE(run.finished(rank))
              << "rank " << rank << " of " << n << ", " << chunks << " chunks";
          for (const Terms& chunk : run.output()[at(rank)]) EXPECT_EQ(chunk, all_terms(n));
        }
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
