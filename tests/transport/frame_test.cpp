// Frames: what is written is read, and a reader does not trust what came.
#include "transport/frame.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace plait::transport {
namespace {

using Kind = FrameEntry::Kind;

std::vector<std::byte> some_bytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + size);
  return bytes;
}

TEST(Frames, AreReadAsTheyWereWritten) {
  std::array<std::byte, frame_bytes> memory;
  FrameWriter writer(memory);
  const auto chunk = some_bytes(1001), words = some_bytes(24);
  writer.add({.kind = Kind::chunk, .channel = 3, .value = 0xffffffff, .offset = 64, .bytes = 1001},
             chunk);
  writer.add({.kind = Kind::data, .channel = 65535, .value = 0, .offset = 128, .bytes = 1u << 30});
  writer.add({.kind = Kind::credit, .channel = 0, .value = 17});
  writer.add({.kind = Kind::control}, words);
  writer.add({.kind = Kind::left});
  EXPECT_EQ(writer.size(), 5 * sizeof(FrameEntry) + chunk.size() + words.size());

  FrameReader reader{std::span(memory).first(writer.size())};
  auto item = reader.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->entry.kind, Kind::chunk);
  EXPECT_EQ(item->entry.channel, 3);
  EXPECT_EQ(item->entry.value, 0xffffffff);
  EXPECT_EQ(item->entry.offset, 64u);
  EXPECT_EQ(item->entry.bytes, 1001u);
  EXPECT_EQ(std::vector(item->data.begin(), item->data.end()), chunk);
  item = reader.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->entry.kind, Kind::data);
  EXPECT_EQ(item->entry.channel, 65535);
  EXPECT_EQ(item->entry.bytes, 1u << 30);
  EXPECT_TRUE(item->data.empty());
  item = reader.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->entry.kind, Kind::credit);
  EXPECT_EQ(item->entry.value, 17u);
  item = reader.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->entry.kind, Kind::control);
  EXPECT_EQ(std::vector(item->data.begin(), item->data.end()), words);
  EXPECT_FALSE(reader.at_end());
  item = reader.next();
  ASSERT_TRUE(item);
  EXPECT_EQ(item->entry.kind, Kind::left);
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
