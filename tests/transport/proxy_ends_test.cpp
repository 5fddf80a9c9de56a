// What a proxy makes of a peer that leaves, vanishes, or sends what no proxy sends.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/thread_ranks.hpp"
#include "transport/frame.hpp"
#include "transport/lanes.hpp"
#include "transport/peer.hpp"

namespace plait::transport {
namespace {

constexpr int peer = 1;

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

/// A peer without a proxy: it says who it is as one would, and then what the test wants.
class Impostor {
 public:
  explicit Impostor(const Address& address) : listener_(transport_->listen()), address_(address) {}
  Address address() const { return listener_->address(); }

  void connect(PeerHello::Use use) {
    auto& flow = flows_.emplace_back();
    wait_until(*transport_, [&] { return (flow = transport_->connect(address_)) != nullptr; });
    const PeerHello hello{peer, use};
    say(*flow, &hello, sizeof hello);
  }
  void send_frame(std::span<const std::byte> frame) {
    say(*flows_.front(), frame.data(), frame.size());
  }
  void vanish() {
    flows_.clear();
    listener_.reset();
    transport_.reset();
  }

 private:
  void say(SendFlow& flow, const void* data, std::size_t bytes) {
    Buffer words(flow, bytes);
    std::memcpy(words.bytes.data(), data, bytes);
    finish(*transport_, flow, send(*transport_, flow, words, bytes));
  }

  std::unique_ptr<Transport> transport_ = make_sockets();
  std::unique_ptr<Listener> listener_;
  Address address_;
  std::vector<std::unique_ptr<SendFlow>> flows_;
};

/// Rank 0 is a proxy; `body` gets it and an impostor in the place of rank 1.
void with_impostor(const std::function<void(TestRank&, Impostor&)>& body) {
  run_ranks(2, [&](std::unique_ptr<Bootstrap>& ranks) {
    if (ranks->rank() == 1) {
      ranks->all_gather(Address{});  // the impostor's, which rank 0 has from `give_address`
      ranks->barrier();
      return;
    }
    TestRank rank(*ranks, {}, [](const Address& of_rank) {
      auto impostor = std::make_shared<Impostor>(of_rank);
      return std::pair(impostor->address(), std::shared_ptr<void>(impostor));
    });
    body(rank, *static_cast<Impostor*>(rank.stranger().get()));
    ranks->barrier();
  });
}

void expect_one_loss(TestRank& rank) {
  rank.wait([&] { return !rank.lost().empty(); });
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(rank.lost(), std::vector{peer});
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
    rank.proxy().tell(peer, {});
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
