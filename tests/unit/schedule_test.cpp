// Who sends what to whom, simulated on the host without memory or threads: rings, recursive
// doubling and slices of 1 to 16 ranks.
#include "algorithms/all_reduce/recursive_doubling/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <set>
#include <vector>

#include "algorithms/all_reduce/copy_engine/layout.hpp"
#include "algorithms/all_reduce/ring/schedule.hpp"

namespace plait {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// A chunk as it travels: which ranks' terms it holds.
using Terms = std::multiset<int>;

/// One rank of a ring. Steps are recorded first, and then run as soon as their input is there.
class RingRank {
 public:
  enum Kind {
    send_kind,
    recv_reduce_send_kind,
    recv_reduce_copy_send_kind,
    recv_copy_send_kind,
    recv_kind,
    copy_kind
  };
  struct Step {
    Kind kind;
    int chunk;
  };
  struct Message {
    int chunk;
    Terms terms;
  };

  RingRank(int rank, int ranks, bool reverse)
      : rank_(rank), place_(ring::Place::of(rank, ranks, reverse)), output_(at(ranks)) {
    ring::all_reduce(*this, place_);
  }

  // The five primitives, as the schedule sees them.
  bool send(int chunk) { return record(send_kind, chunk); }
  bool recv_reduce_send(int chunk) { return record(recv_reduce_send_kind, chunk); }
  bool recv_reduce_copy_send(int chunk) { return record(recv_reduce_copy_send_kind, chunk); }
  bool recv_copy_send(int chunk) { return record(recv_copy_send_kind, chunk); }
  bool recv(int chunk) { return record(recv_kind, chunk); }
  bool copy(int chunk) { return record(copy_kind, chunk); }

  bool finished() const { return next_ == steps_.size(); }
  /// Runs the next step if a message is there for it.
  bool advance(std::deque<Message>& in, std::deque<Message>& out) {
    if (finished()) return false;
    const auto [kind, chunk] = steps_[next_];
    Terms terms = {rank_};
    if (kind != send_kind && kind != copy_kind) {
      if (in.empty()) return false;
      EXPECT_EQ(in.front().chunk, chunk) << "rank " << rank_;
      terms = in.front().terms;
      in.pop_front();
      ++received_;
      if (kind == recv_reduce_send_kind || kind == recv_reduce_copy_send_kind) terms.insert(rank_);
    }
    const bool stores = kind != send_kind && kind != recv_reduce_send_kind;
    if (stores) output_[at(chunk)] = terms;
    if (kind != recv_kind && kind != copy_kind) {
      out.push_back({chunk, terms});
      ++sent_;
    }
    ++next_;
    return true;
  }
  const std::vector<Terms>& output() const { return output_; }
  int sent() const { return sent_; }
  int received() const { return received_; }
  const std::vector<Step>& steps() const { return steps_; }
  const ring::Place& place() const { return place_; }

 private:
  bool record(Kind kind, int chunk) {
    steps_.push_back({kind, chunk});
    return true;
  }

  int rank_;
  ring::Place place_;
  std::vector<Step> steps_;
  std::size_t next_ = 0;
  std::vector<Terms> output_;
  int sent_ = 0, received_ = 0;
};

class Rings : public testing::TestWithParam<std::tuple<int, bool>> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Rings, testing::Combine(testing::Range(1, 17), testing::Bool()));

TEST_P(Rings, EveryChunkHoldsEveryTermOnceOnEveryRank) {
  const auto [n, reverse] = GetParam();
  std::vector<RingRank> ranks;
  for (int rank = 0; rank < n; ++rank) ranks.emplace_back(rank, n, reverse);
  std::vector<std::deque<RingRank::Message>> inbox(at(n));
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < n; ++rank)
      while (ranks[at(rank)].advance(inbox[at(rank)], inbox[at(ranks[at(rank)].place().next())]))
        moved = true;
  }
  Terms everybody;
  for (int rank = 0; rank < n; ++rank) everybody.insert(rank);
  for (const RingRank& rank : ranks) {
    EXPECT_TRUE(rank.finished());
    EXPECT_EQ(rank.sent(), 2 * (n - 1));
    EXPECT_EQ(rank.received(), 2 * (n - 1));
    for (const Terms& chunk : rank.output()) EXPECT_EQ(chunk, everybody);
  }
}

TEST_P(Rings, NeighboursAgree) {
  const auto [n, reverse] = GetParam();
  for (int rank = 0; rank < n; ++rank) {
    const auto place = ring::Place::of(rank, n, reverse);
    EXPECT_EQ(place.rank_at(place.position), rank);
    EXPECT_EQ(place.next(), (rank + (reverse ? n - 1 : 1)) % n);
    EXPECT_EQ(ring::Place::of(place.next(), n, reverse).previous(), rank);
  }
}

TEST(Rings, OrderOfStepsIsThatOfTheDesign) {
  using R = RingRank;
  for (int n = 2; n <= 16; ++n)
    for (int k = 0; k < n; ++k) {
      const R rank(k, n, false);
      const auto& steps = rank.steps();
      ASSERT_EQ(steps.size(), at(2 * n - 1));
      const auto chunk = [&](int offset) { return ((k + offset) % n + n) % n; };
      EXPECT_TRUE(steps[0].kind == R::send_kind && steps[0].chunk == k);
      for (int i = 1; i <= n - 2; ++i)
        EXPECT_TRUE(steps[at(i)].kind == R::recv_reduce_send_kind &&
                    steps[at(i)].chunk == chunk(-i));
      EXPECT_TRUE(steps[at(n - 1)].kind == R::recv_reduce_copy_send_kind &&
                  steps[at(n - 1)].chunk == chunk(1));
      for (int i = 0; i <= n - 3; ++i)
        EXPECT_TRUE(steps[at(n + i)].kind == R::recv_copy_send_kind &&
                    steps[at(n + i)].chunk == chunk(-i));
      EXPECT_TRUE(steps.back().kind == R::recv_kind && steps.back().chunk == chunk(2));
    }
}

class Doubling : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Sizes, Doubling, testing::Range(1, 17));

TEST_P(Doubling, EveryRankEndsWithEveryTermOnce) {
  using recursive_doubling::Schedule;
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
    inbox[at(rank)].resize(at(Schedule{rank, n}.steps()));
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < n; ++rank) {
      const Schedule schedule{rank, n};
      int& now = stage[at(rank)];
      if (now == schedule.stages()) continue;
      if (const auto in = schedule.incoming(now); in.exists()) {
        auto& box = inbox[at(rank)][at(in.step)];
        if (box.empty()) continue;
        EXPECT_EQ(box.front().from, in.peer);
        if (schedule.is_guest()) partial[at(rank)] = box.front().terms;
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
    EXPECT_EQ(stage[at(rank)], (Schedule{rank, n}.stages())) << "rank " << rank;
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
