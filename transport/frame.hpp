// What proxies tell each other: frames of entries. A frame is one message of a transport. If the
// ranks check what the network brings (PLAIT_NET_CHECK), it ends with its checksum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "backends/device/channel_words.hpp"

namespace plait::transport {

/// One entry of a frame. `size` bytes follow it in the frame.
struct FrameEntry {
  enum class Kind : std::uint16_t {
    chunk,    // a chunk, whose bytes follow
    data,     // a chunk, whose `bytes` come as the next message of the flow of data; behind it its
              // checksum, if the ranks check
    credit,   // the receiver has emptied its slots up to chunk `value`
    control,  // words for the layer above, which follow
    left,     // the sender's last entry: it has left, and its flows end
    moved,    // the sender's last entry here: it goes on over the connection that its peer made
  };
  Kind kind = Kind::left;
  std::uint16_t channel = 0;
  std::uint32_t value = 0;   // of the counter that this entry raises
  std::uint32_t offset = 0;  // of the chunk in its channel, and `ChunkNote::flags`
  std::uint32_t bytes = 0;   // of the chunk
  std::uint32_t size = 0;    // of what follows
};

/// The largest frame, in bytes.
inline constexpr std::size_t frame_bytes = std::size_t{16} << 10;

/// CRC-32C, of a frame or of a chunk.
using Checksum = std::uint32_t;

/// Fills a frame.
class FrameWriter {
 public:
  explicit FrameWriter(std::span<std::byte> memory) : memory_(memory) {}
  bool has_room(std::size_t size) const {
    return used_ + sizeof(FrameEntry) + size <= memory_.size();
  }
  /// The caller has asked for room. Returns where the entry's bytes begin.
  std::byte* add(FrameEntry entry, std::span<const std::byte> data = {}) {
    entry.size = static_cast<std::uint32_t>(data.size());
    std::memcpy(memory_.data() + used_, &entry, sizeof(entry));
    std::byte* const begin = memory_.data() + used_ + sizeof(entry);
    if (!data.empty()) std::memcpy(begin, data.data(), data.size());
    used_ += sizeof(entry) + data.size();
    return begin;
  }
  std::size_t size() const noexcept { return used_; }
  void clear() noexcept { used_ = 0; }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

/// Reads a frame that another process has sent.
class FrameReader {
 public:
  struct Item {
    FrameEntry entry;
    std::span<const std::byte> data;
  };
  explicit FrameReader(std::span<const std::byte> frame) : rest_(frame) {}
  bool at_end() const noexcept { return rest_.empty(); }
  /// The next entry; none if what is left is no entry.
  std::optional<Item> next() {
    FrameEntry entry;
    if (rest_.size() < sizeof(entry)) return std::nullopt;
    std::memcpy(&entry, rest_.data(), sizeof(entry));
    rest_ = rest_.subspan(sizeof(entry));
    if (entry.size > rest_.size()) return std::nullopt;
    const Item item{entry, rest_.first(entry.size)};
    rest_ = rest_.subspan(entry.size);
    return item;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace plait::transport
