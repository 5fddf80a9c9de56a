// The schedule of all-reduce's ring on the host, for 1 to 16 ranks, simulated with a model of the
// primitives (ring_primitives_test has the real ones).
#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <tuple>
#include <vector>

#include "algorithms/all_reduce/ring/primitives.hpp"
#include "unit/ring_effects.hpp"

namespace plait {
namespace {

/// A chunk as it travels: the ranks whose terms it holds.
using Terms = std::multiset<int>;

/// One rank of a ring. Steps are recorded first, and then run as soon as their input is there.
class RingRank {
 public:
  struct Step {
    Primitive kind;
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

  // The primitives, as the schedule sees them.
  bool send(int chunk) { return record(Primitive::send, chunk); }
  bool recv_reduce_send(int chunk) { return record(Primitive::recv_reduce_send, chunk); }
  bool recv_reduce_copy_send(int chunk) { return record(Primitive::recv_reduce_copy_send, chunk); }
  bool recv_copy_send(int chunk) { return record(Primitive::recv_copy_send, chunk); }
  bool recv(int chunk) { return record(Primitive::recv, chunk); }
  bool copy(int chunk) { return record(Primitive::copy, chunk); }

  bool finished() const { return next_ == steps_.size(); }
  /// Runs the next step if a message is there for it.
  bool advance(std::deque<Message>& in, std::deque<Message>& out) {
    if (finished()) return false;
    const auto [kind, chunk] = steps_[next_];
    const Effect effect = effect_of(kind);
    Terms terms;
    if (effect.receives) {
      if (in.empty()) return false;
      EXPECT_EQ(in.front().chunk, chunk) << "rank " << rank_;
      terms = in.front().terms;
      in.pop_front();
      ++received_;
    }
    if (effect.adds) terms.insert(rank_);
    if (effect.stores) output_[at(chunk)] = terms;
    if (effect.sends) {
      out.push_back({chunk, terms});
      ++sent_;
    }
    ++next_;
    return true;
  }
  const std::vector<Terms>& output() const { return output_; }
  int sent() const { return sent_; }
  int received() const { return received_; }
  const ring::Place& place() const { return place_; }

 private:
  bool record(Primitive kind, int chunk) {
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

}  // namespace
}  // namespace plait
