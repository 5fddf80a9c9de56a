// Two peers over sockets, in one thread: the test says when each of them sends and receives. And
// their frames: what is written is read, and a reader does not trust what came.
#include "transport/peer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "transport/crc32c.hpp"
#include "transport/frame.hpp"
#include "transport/lanes.hpp"

namespace plait::transport {
namespace {

using Credits = Peer::Credits;
using Clock = std::chrono::steady_clock;

/// One end: a peer of rank `rank`, for the other of two ranks.
struct End {
  End(int rank, const LaneShape& shape)
      : transport(make_sockets()), listener(transport->listen()), lane(rank, 1 - rank, shape) {}
  void meet(const End& other) {
    const Address address = other.listener->address();
    peer = std::make_unique<Peer>(*transport, lane.lane(address), 1 - lane.peer(), counters);
  }
  void receive() {
    if (auto flow = listener->accept()) arrival = std::make_unique<Arrival>(std::move(flow));
    if (arrival && arrival->has_said_hello()) {
      peer->take(arrival->hello.use, std::move(arrival->flow));
      arrival.reset();
    }
    peer->receive({});
  }

  std::unique_ptr<Transport> transport;
  std::unique_ptr<Listener> listener;
  Counters counters;
  TestLane lane;
  std::unique_ptr<Arrival> arrival;
  std::unique_ptr<Peer> peer;
};

/// The receiver has emptied so many chunks of the sender, and no credit for them is under way.
class PeerCredits : public testing::Test {
 protected:
  void take_chunks(int chunks, std::uint32_t credit_flags) {
    const LaneShape shape{
        .channels = 3, .slots = 8, .slot_bytes = small_slot, .credit_flags = credit_flags};
    for (int rank = 0; rank < 2; ++rank) ends_.push_back(std::make_unique<End>(rank, shape));
    sender().meet(receiver());
    receiver().meet(sender());
    for (int k = 0; k < chunks; ++k) sender().lane.send(0);
    for (int k = 0; k < chunks; ++k) {
      wait_until([&] { return receiver().lane.has_arrived(0); });
      receiver().lane.receive(0);
    }
  }
  /// Whether the receiver puts the credits into a frame.
  bool sends(Credits credits) {
    const auto before = receiver().counters.frames_sent;
    receiver().peer->send(credits);
    if (receiver().counters.frames_sent == before) return false;
    wait_until([&] { return sender().lane.is_all_taken(0); });
    return true;
  }
  void send_a_chunk() { receiver().lane.send(0); }
  /// Both ends send so many chunks through a channel, and empty those of the other.
  void call(unsigned channel, int chunks) {
    for (const auto& one : ends_) {
      ASSERT_TRUE(one->lane.is_all_taken(channel));
      for (int k = 0; k < chunks; ++k) one->lane.send(channel);
    }
    for (const auto& one : ends_)
      for (int k = 0; k < chunks; ++k) {
        wait_until([&] {
          receiver().peer->send(Credits::urgent);
          return one->lane.has_arrived(channel);
        });
        one->lane.receive(channel);
      }
    for (const auto& one : ends_) one->peer->send(Credits::urgent);
  }
  std::uint64_t frames_sent() { return receiver().counters.frames_sent; }

 private:
  End& sender() { return *ends_[0]; }
  End& receiver() { return *ends_[1]; }
  template <class Condition>
  void wait_until(const Condition& is_met) {
    const auto end = Clock::now() + patience;
    while (!is_met() && Clock::now() < end) {
      sender().peer->send(Credits::urgent);
      for (const auto& one : ends_) one->receive();
    }
    ASSERT_TRUE(is_met());
  }
  std::vector<std::unique_ptr<End>> ends_;
};

TEST_F(PeerCredits, OfOneChunkWaitForSomeRounds) {
  take_chunks(1, 0);
  EXPECT_FALSE(sends(Credits::urgent));
  EXPECT_TRUE(sends(Credits::due));
}

TEST_F(PeerCredits, OfTwoChunksAreUrgent) {
  take_chunks(2, 0);
  EXPECT_TRUE(sends(Credits::urgent));
}

TEST_F(PeerCredits, ThatMayWaitTravelWithTheNextChunk) {
  take_chunks(2, ChunkNote::credit_may_wait);
  EXPECT_FALSE(sends(Credits::urgent));
  send_a_chunk();
  EXPECT_TRUE(sends(Credits::urgent));
  EXPECT_FALSE(sends(Credits::all)) << "they have been sent";
}

/// Calls that use two channels in turn.
TEST_F(PeerCredits, ThatMayWaitNeedNoFrames) {
  take_chunks(2, ChunkNote::credit_may_wait);
  send_a_chunk();
  EXPECT_TRUE(sends(Credits::urgent));
  const auto before = frames_sent();
  constexpr unsigned calls = 10;
  for (unsigned i = 0; i < calls; ++i) call(1 + i % 2, 2);
  EXPECT_EQ(frames_sent(), before + calls);
}

TEST_F(PeerCredits, ThatMayWaitAreSentIfAllAre) {
  take_chunks(2, ChunkNote::credit_may_wait);
  EXPECT_FALSE(sends(Credits::urgent));
  EXPECT_TRUE(sends(Credits::all));
}

TEST_F(PeerCredits, ThatMayWaitAreDueAfterAWhile) {
  take_chunks(2, ChunkNote::credit_may_wait);
  EXPECT_FALSE(sends(Credits::due)) << "the peer has not seen them before";
  std::this_thread::sleep_for(2 * Peer::most_held);
  EXPECT_FALSE(sends(Credits::urgent));
  EXPECT_TRUE(sends(Credits::due));
}

TEST_F(PeerCredits, InBulkWaitForOthers) {
  take_chunks(ChunkNote::bulk - 1, ChunkNote::credit_in_bulk);
  for (const Credits credits : {Credits::urgent, Credits::due, Credits::most})
    EXPECT_FALSE(sends(credits));
  send_a_chunk();
  EXPECT_TRUE(sends(Credits::urgent));
  EXPECT_FALSE(sends(Credits::all)) << "they have been sent";
}

TEST_F(PeerCredits, InBulkAreSentOnceThereAreEnough) {
  take_chunks(ChunkNote::bulk, ChunkNote::credit_in_bulk);
  EXPECT_TRUE(sends(Credits::urgent));
}

TEST_F(PeerCredits, InBulkAreDueAfterAWhile) {
  take_chunks(1, ChunkNote::credit_in_bulk);
  EXPECT_FALSE(sends(Credits::most)) << "the peer has not seen it before";
  std::this_thread::sleep_for(2 * Peer::most_held);
  EXPECT_FALSE(sends(Credits::urgent));
  EXPECT_TRUE(sends(Credits::most));
}

/// RFC 3720, appendix B.4, and messages of all lengths against the definition, bit by bit.
TEST(Crc32c, IsThatOfTheStandard) {
  std::vector<std::byte> bytes(32);
  EXPECT_EQ(crc32c(bytes), 0x8a9136aau);
  bytes.assign(32, std::byte{0xff});
  EXPECT_EQ(crc32c(bytes), 0x62a8ab43u);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(bytes), 0x46dd794eu);
}

TEST(Crc32c, IsTheRemainderOfTheWhole) {
  std::vector<std::byte> bytes(20'001);
  std::uint32_t remainder = ~0u;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i < 70 || i % 997 == 0) {
      EXPECT_EQ(crc32c(std::span(bytes).first(i)), ~remainder) << i;
    }
    bytes[i] = static_cast<std::byte>(i * 2654435761u >> 13);
    remainder ^= static_cast<std::uint32_t>(bytes[i]);
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ (remainder % 2 != 0 ? 0x82f63b78u : 0);
  }
}

using Kind = FrameEntry::Kind;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
  return bytes;
}

TEST(Frames, AreReadAsTheyWereWritten) {
  const std::pair<FrameEntry, std::size_t> written[] = {
      // with so many bytes behind them
      {{.kind = Kind::chunk, .channel = 3, .value = 0xffffffff, .offset = 64, .bytes = 1001}, 1001},
      {{.kind = Kind::data, .channel = 65535, .value = 0, .offset = 128, .bytes = 1u << 30}, 0},
      {{.kind = Kind::credit, .channel = 0, .value = 17}, 0},
      {{.kind = Kind::control}, 24},
      {{.kind = Kind::left}, 0}};
  std::array<std::byte, frame_bytes> memory;
  FrameWriter writer(memory);
  for (const auto& [entry, bytes] : written) writer.add(entry, some_bytes(bytes));
  EXPECT_EQ(writer.size(), 5 * sizeof(FrameEntry) + 1001 + 24);

  FrameReader reader{std::span(memory).first(writer.size())};
  for (const auto& [entry, bytes] : written) {
    EXPECT_FALSE(reader.at_end());
    const auto item = reader.next();
    ASSERT_TRUE(item);
    EXPECT_EQ(item->entry.kind, entry.kind);
    EXPECT_EQ(item->entry.channel, entry.channel);
    EXPECT_EQ(item->entry.value, entry.value);
    EXPECT_EQ(item->entry.offset, entry.offset);
    EXPECT_EQ(item->entry.bytes, entry.bytes);
    EXPECT_EQ(std::vector(item->data.begin(), item->data.end()), some_bytes(bytes));
  }
  EXPECT_TRUE(reader.at_end());
}

/// Wherever a frame is cut, the reader gives the whole entries before the cut, and then nothing.
TEST(Frames, ThatEndWithinAnEntryHaveNoNext) {
  std::array<std::byte, frame_bytes> memory;
  FrameWriter writer(memory);
  const auto data = some_bytes(50);
  writer.add({.kind = Kind::credit});
  const std::size_t first = writer.size();
  writer.add({.kind = Kind::chunk, .bytes = 50}, data);
  for (std::size_t cut = first + 1; cut < writer.size(); ++cut) {
    FrameReader reader{std::span(memory).first(cut)};
    EXPECT_TRUE(reader.next());
    EXPECT_FALSE(reader.at_end()) << cut;
    EXPECT_FALSE(reader.next()) << cut;
  }
}

TEST(Frames, AreFull) {
  std::array<std::byte, frame_bytes> memory;
  FrameWriter writer(memory);
  EXPECT_TRUE(writer.has_room(frame_bytes - sizeof(FrameEntry)));
  EXPECT_FALSE(writer.has_room(frame_bytes - sizeof(FrameEntry) + 1));
  const auto data = some_bytes(most_inline_bytes);
  std::size_t entries = 0;
  for (; writer.has_room(data.size()); ++entries) writer.add({.kind = Kind::chunk}, data);
  EXPECT_EQ(entries, frame_bytes / (most_inline_bytes + sizeof(FrameEntry)));
  for (; writer.has_room(0); ++entries) writer.add({.kind = Kind::credit});
  EXPECT_GT(writer.size() + sizeof(FrameEntry), frame_bytes);
  EXPECT_LE(writer.size(), frame_bytes);

  FrameReader reader{std::span(memory).first(writer.size())};
  for (; !reader.at_end(); --entries) ASSERT_TRUE(reader.next());
  EXPECT_EQ(entries, 0u);
  writer.clear();
  EXPECT_EQ(writer.size(), 0u);
  EXPECT_TRUE(writer.has_room(data.size()));
}

}  // namespace
}  // namespace plait::transport
