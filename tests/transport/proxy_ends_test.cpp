// What a proxy makes of a peer that leaves, vanishes, or sends what no proxy sends.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/socket/connection.hpp"
#include "bootstrap/thread_ranks.hpp"
#include "transport/crc32c.hpp"
#include "transport/frame.hpp"
#include "transport/impostor.hpp"
#include "transport/lanes.hpp"
#include "transport/peer.hpp"
#include "transport/socket/wire.hpp"

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

/// A listener whose queue is full drops calls without a word, as a firewall does.
class FullListener {
 public:
  FullListener() {
    ::listen(socket_.get(), 0);
    keep(plait::detail::connect_to(place_.endpoint, plait::detail::Deadline(5s), false));
  }
  Address address() const {
    Address address;
    std::memcpy(address.bytes.data(), &place_, sizeof place_);
    return address;
  }
  std::string text() const { return to_text(place_.endpoint); }
  void take_one() {
    UniqueFd taken(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK));
    if (taken.valid()) keep(plait::detail::GroupFd(std::move(taken)));
  }

 private:
  void keep(std::optional<plait::detail::GroupFd> socket) {
    if (socket) callers_.push_back(std::move(*socket));
  }

  UniqueFd socket_ =
      plait::detail::listen_at(plait::detail::resolve("127.0.0.1", std::uint16_t{0}));
  Place place_{place_magic, 4711, plait::detail::own_end(socket_.get())};
  std::vector<plait::detail::GroupFd> callers_;
};

TEST(ProxyEnds, APeerThatCanNotBeCalledIsNamedUntilItAnswers) {
  FullListener listener;
  run_ranks(2, [&](std::unique_ptr<Bootstrap>& ranks) {
    if (ranks->rank() == 1) {
      ranks->all_gather(Address{});  // the listener's is in its place
      return;
    }
    TestRank rank(*ranks, {},
                  [&](const Address&) { return std::pair(listener.address(), nullptr); });
    rank.lane(0).send(0);
    rank.proxy().wake();
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(rank.unanswered().empty());  // too early to say
    rank.wait([&] { return !rank.unanswered().empty(); });
    const std::string said = rank.unanswered().front();
    EXPECT_EQ(said.find("connecting to " + listener.text() + ": no answer: "), 0U) << said;
    EXPECT_NE(said.find("PLAIT_SOCKET_IFNAME"), std::string::npos) << said;
    // Once the system there answers, the program there is what is waited for.
    rank.wait([&] { return rank.unanswered().size() > 1; },
              [&] {
                listener.take_one();
                std::this_thread::sleep_for(5ms);
              });
    EXPECT_EQ(rank.unanswered().back(), "");
    EXPECT_TRUE(rank.lost().empty());
    rank.proxy().stop(0ms);
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

/// What an impostor sends to a rank that checks: a chunk in a frame, or announced, and its bytes.
struct Sent {
  std::vector<std::byte> frame, data;

  Sent(FrameEntry::Kind kind, std::uint32_t bytes) : frame(frame_bytes), data(bytes) {
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 + bytes);
    FrameWriter writer(frame);
    const FrameEntry entry{.kind = kind, .value = 1, .bytes = bytes};
    const Checksum of_data = crc32c(data);
    if (kind == FrameEntry::Kind::chunk) writer.add(entry, std::exchange(data, {}));
    else writer.add(entry, std::as_bytes(std::span(&of_data, 1)));
    frame.resize(writer.size());
    const Checksum sum = crc32c(frame);
    const auto words = std::as_bytes(std::span(&sum, 1));
    frame.insert(frame.end(), words.begin(), words.end());
  }
  std::size_t size() const { return frame.size() + data.size(); }
  void flip(std::size_t bit) {
    std::byte& at = bit / 8 < frame.size() ? frame[bit / 8] : data[bit / 8 - frame.size()];
    at ^= static_cast<std::byte>(1 << bit % 8);
  }
};

void expect_of_checked(const Sent& sent, bool is_whole) {
  with_impostor(
      [&](TestRank& rank, Impostor& impostor) {
        impostor.connect(PeerHello::Use::frames);
        impostor.connect(PeerHello::Use::data);
        impostor.send_frame(sent.frame);
        if (!sent.data.empty()) impostor.send_data(sent.data);
        if (is_whole) rank.wait([&] { return rank.lane(0).has_arrived(0); });
        else rank.wait([&] { return !rank.lost().empty(); });
        EXPECT_EQ(rank.lane(0).has_arrived(0), is_whole);
        EXPECT_EQ(rank.lost().empty(), is_whole);
      },
      {.is_checked = true});
}

TEST(ProxyEnds, ADamagedBitIsALossIfRanksCheck) {
  using Kind = FrameEntry::Kind;
  for (const auto& [kind, bytes] : {std::pair(Kind::chunk, 100u), std::pair(Kind::data, 9001u)}) {
    const Sent sent(kind, bytes);
    expect_of_checked(sent, true);
    for (const std::size_t bit : {std::size_t{1}, std::size_t{40}, 8 * sent.size() / 2,
                                  8 * sent.frame.size() - 1, 8 * sent.size() - 1}) {
      Sent damaged = sent;
      damaged.flip(bit);
      expect_of_checked(damaged, false);
    }
  }
}

}  // namespace
}  // namespace plait::transport
