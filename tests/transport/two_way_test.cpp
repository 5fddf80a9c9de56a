// Frames of two ranks go both ways over one connection, whichever of them calls first.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/memory_files.hpp"
#include "bootstrap/thread_ranks.hpp"
#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "transport/impostor.hpp"
#include "transport/lanes.hpp"

namespace plait::transport {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = FrameEntry::Kind;
using Use = PeerHello::Use;

/// Two ranks, and how many descriptors the process has before they connect.
class Pair {
 public:
  explicit Pair(Bootstrap& ranks) : ranks_(ranks), rank(ranks, {.slot_bytes = small_slot}) {
    ranks_.barrier();
    if (ranks_.rank() == 0) before_ = open_descriptors();
    before_ = ranks_.all_gather(before_).front();
  }
  /// Collective. The process has so many descriptors more; a connection within it has two.
  void expect_more_descriptors(int wanted) {
    ranks_.barrier();
    if (ranks_.rank() == 0) rank.wait([&] { return open_descriptors() == before_ + wanted; });
    ranks_.barrier();
  }

 private:
  Bootstrap& ranks_;
  int before_ = 0;

 public:
  TestRank rank;
};

std::span<const std::byte> bytes_of(const std::string& words) {
  return std::as_bytes(std::span(words));
}

/// The difference between the ranks' first messages makes them call at once, or one after the
/// other, or anything between. Words and chunks keep their order on all ways.
TEST(TwoWay, RanksThatCallAtOnceKeepOneConnection) {
  constexpr int times = test::under_tsan ? 50 : 400, words = 20;
  for (int time = 0; time < times; ++time)
    run_ranks(2, [&](std::unique_ptr<Bootstrap>& ranks) {
      Pair pair(*ranks);
      TestRank& rank = pair.rank;
      const auto start =
          Clock::now() + std::chrono::microseconds(ranks->rank() == time % 2 ? time : 0);
      while (Clock::now() < start) std::this_thread::yield();
      for (int i = 0; i < words; ++i)
        rank.proxy().tell(1 - rank.number(), bytes_of(std::to_string(i)));
      rank.exchange(10, [&] {
        rank.proxy().wake();
        std::this_thread::yield();
      });
      rank.wait([&] { return rank.heard().size() == words; });
      pair.expect_more_descriptors(2);
      // Both ways still work.
      rank.exchange(20, [&] {
        rank.proxy().carry(1 - rank.number());
        std::this_thread::yield();
      });
      for (int i = 0; i < words; ++i)
        EXPECT_EQ(rank.heard()[static_cast<std::size_t>(i)].second, std::to_string(i));
      EXPECT_TRUE(rank.lost().empty());
      ranks->barrier();
    });
}

/// One rank alone has something to say. Then one leaves, and its peer closes the connection.
TEST(TwoWay, ARankThatNeverSendsNeedsNoConnection) {
  for (int sender = 0; sender < 2; ++sender)
    for (int leaver = 0; leaver < 2; ++leaver)
      run_ranks(2, [&](std::unique_ptr<Bootstrap>& ranks) {
        Pair pair(*ranks);
        TestRank& rank = pair.rank;
        if (rank.number() == sender) {
          for (int k = 0; k < 3; ++k) rank.lane(0).send(0);
          rank.proxy().tell(1 - sender, bytes_of("the last"));
          rank.proxy().wake();
        } else {
          rank.wait([&] { return !rank.heard().empty(); });
        }
        pair.expect_more_descriptors(2);
        if (rank.number() == leaver) rank.proxy().stop(patience);
        pair.expect_more_descriptors(1);
        EXPECT_TRUE(rank.lost().empty());
        ranks->barrier();
      });
}

/// The proxy and its peer have both called. The answers of the larger rank come over the proxy's
/// connection before the rest comes over the peer's own.
TEST(TwoWay, FramesAfterAMoveWaitForThoseBefore) {
  with_impostor([](TestRank& rank, Impostor& impostor) {
    rank.proxy().tell(Impostor::rank, bytes_of("calling"));
    std::this_thread::sleep_for(50ms);  // it calls now, and is not answered yet
    impostor.connect(Use::frames);
    const auto theirs = impostor.accept();
    impostor.hear(*theirs);
    const auto reply = theirs->reply();
    impostor.say(*reply, PeerHello{Impostor::rank, Use::later_frames});
    impostor.say(*reply, {.kind = Kind::control}, bytes_of("second"));
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(rank.heard().empty());
    impostor.say(impostor.frames(), {.kind = Kind::control}, bytes_of("first"));
    impostor.say(impostor.frames(), {.kind = Kind::moved});
    rank.wait([&] { return rank.heard().size() == 2; });
    EXPECT_EQ(rank.heard().at(0).second, "first");
    EXPECT_EQ(rank.heard().at(1).second, "second");
    EXPECT_TRUE(rank.lost().empty());
  });
}

/// Its peer does not read for a while, and sends what the rank that leaves never reads. The system
/// resets such a connection when it is closed.
TEST(TwoWay, AFarewellArrivesBehindMuchAndBesideUnreadFrames) {
  constexpr int many = 60;
  with_leaving_rank([&](std::unique_ptr<TestRank>& rank, Impostor& impostor) {
    const std::string words(frame_bytes / 2, 'x');
    for (int i = 0; i < many; ++i) rank->proxy().tell(Impostor::rank, bytes_of(words));
    const auto theirs = impostor.accept();
    const auto reply = theirs->reply();
    impostor.say(*reply, PeerHello{Impostor::rank, Use::frames});
    std::thread leaving([&] { rank.reset(); });
    for (const auto end = Clock::now() + 100ms; Clock::now() < end;)
      if (test::error_of([&] { impostor.say(*reply, {.kind = Kind::control}); })) break;
    int heard = 0;
    for (bool has_left = false; !has_left;) {
      std::vector<std::byte> frame;
      if (const auto error = test::error_of([&] { frame = impostor.hear(*theirs); })) {
        ADD_FAILURE() << error->what();
        break;
      }
      for (FrameReader reader(frame); !reader.at_end();) {
        const auto item = reader.next();
        ASSERT_TRUE(item);
        if (item->entry.kind == Kind::control) ++heard;
        has_left = has_left || item->entry.kind == Kind::left;
      }
    }
    EXPECT_EQ(heard, many);
    leaving.join();
  });
}

}  // namespace
}  // namespace plait::transport
