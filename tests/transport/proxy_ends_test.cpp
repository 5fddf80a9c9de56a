// What a proxy makes of a peer that leaves, vanishes, or sends what no proxy sends.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/thread_ranks.hpp"
#include "transport/frame.hpp"
#include "transport/impostor.hpp"
#include "transport/lanes.hpp"
#include "transport/peer.hpp"

namespace plait::transport {
namespace {

TEST(ProxyEnds, APeerThatLeavesIsNoLoss) {
  for (const bool has_flows : {false, true})
    run_ranks(3, [&](std::unique_ptr<Bootstrap>& ranks) {
      TestRank rank(*ranks, {});
      if (has_flows) rank.exchange(10, [&] { rank.proxy().wake(); });
      ranks->barrier();
      if (ranks->rank() == 2) {
        rank.proxy().stop(patience);
      } else {
        std::this_thread::sleep_for(1500ms);  // longer than a farewell may take to come
        // The others go on, and a last credit to the one that has left matters to no rank.
        const std::string words = "still here";
        rank.proxy().tell(2, std::as_bytes(std::span(words)));
        rank.proxy().tell(1 - ranks->rank(), std::as_bytes(std::span(words)));
        rank.wait([&] { return !rank.heard().empty(); });
        if (has_flows) {
          EXPECT_TRUE(rank.lost().empty());
        }
      }
      ranks->barrier();
    });
}

void expect_one_loss(TestRank& rank) {
  rank.wait([&] { return !rank.lost().empty(); });
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(rank.lost(), std::vector{Impostor::rank});
}

TEST(ProxyEnds, APeerThatVanishesIsLostOnce) {
  with_impostor([](TestRank& rank, Impostor& impostor) {
    impostor.connect(PeerHello::Use::frames);
    impostor.connect(PeerHello::Use::data);
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(rank.lost().empty());
    impostor.vanish();
    expect_one_loss(rank);
    // Nothing that is done for it later is a second loss.
    rank.lane(0).send(0);
    rank.proxy().tell(Impostor::rank, {});
    rank.proxy().wake();
    expect_one_loss(rank);
  });
}

TEST(ProxyEnds, APeerThatNeverListensIsLostOnce) {
  with_impostor([](TestRank& rank, Impostor& impostor) {
    impostor.vanish();
    rank.lane(0).send(0);
    rank.proxy().wake();
    expect_one_loss(rank);
  });
}

struct Lie {
  std::string name;
  std::function<void(Impostor&)> tell;
};
Lie entry(std::string name, FrameEntry entry, std::size_t data = 0, std::size_t cut = 0) {
  return {std::move(name), [=](Impostor& impostor) {
            std::vector<std::byte> frame(frame_bytes);
            FrameWriter writer(frame);
            writer.add(entry, std::vector<std::byte>(data));
            impostor.send_frame(std::span(frame).first(writer.size() - cut));
          }};
}
std::vector<Lie> lies() {
  using Kind = FrameEntry::Kind;
  const auto whole = static_cast<std::uint32_t>(LaneShape{}.slots * LaneShape{}.slot_bytes);
  return {
      entry("FrameThatEndsInAnEntry", {.kind = Kind::credit}, 0, 1),
      entry("FrameThatEndsInAChunk", {.kind = Kind::chunk, .value = 1, .bytes = 100}, 100, 1),
      entry("ChannelThatIsNone", {.kind = Kind::credit, .channel = LaneShape{}.channels}),
      entry("ChunkOfAChannelThatIsNone", {.kind = Kind::data, .channel = 65535, .value = 1}),
      entry("ChunkBeyondItsChannel",
            {.kind = Kind::chunk, .value = 1, .offset = whole - 99, .bytes = 100}, 100),
      entry("DataBeyondItsChannel",
            {.kind = Kind::data, .value = 1, .offset = 64, .bytes = whole - 63}),
      entry("DataOfHugeOffset",
            {.kind = Kind::data, .value = 1, .offset = 0xffffff00, .bytes = 0x200}),
      entry("DataForDeviceMemoryThatIsNone",
            {.kind = Kind::data, .value = 1, .offset = ChunkNote::on_device, .bytes = 100}),
      entry("ChunkOfAnotherSize", {.kind = Kind::chunk, .value = 1, .bytes = 100}, 99),
      entry("MoveToNoConnection", {.kind = Kind::moved}),
      entry("UnknownEntry", {.kind = static_cast<Kind>(77)}),
  };
}

class Lies : public testing::TestWithParam<Lie> {};
INSTANTIATE_TEST_SUITE_P(All, Lies, testing::ValuesIn(lies()),
                         [](const auto& lie) { return lie.param.name; });

TEST_P(Lies, AreALoss) {
  with_impostor([](TestRank& rank, Impostor& impostor) {
    impostor.connect(PeerHello::Use::frames);
    GetParam().tell(impostor);
    expect_one_loss(rank);
    EXPECT_FALSE(rank.lane(0).has_arrived(0));
  });
}

}  // namespace
}  // namespace plait::transport
