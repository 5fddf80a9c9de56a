// Frames: what is written is read, and a reader does not trust what came.
#include "transport/frame.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
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
