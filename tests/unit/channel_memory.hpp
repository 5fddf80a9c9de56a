// The channels of all ranks, in memory of a test that needs no ranks.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/blocks/channels/channel.hpp"

namespace plait {

/// Rank r's slots lie at r * stride.
class ChannelMemory {
 public:
  static constexpr unsigned blocks = 3;
  static constexpr std::uint32_t slots = 4, slot_bytes = 256;

  explicit ChannelMemory(int ranks)
      : ranks_(ranks),
        slot_stride_(Channels::count(ranks, blocks) * slots * slot_bytes),
        signal_stride_(Channels::count(ranks, blocks) * sizeof(ChannelSignals)),
        slot_memory_(slot_stride_ * static_cast<std::size_t>(ranks)),
        signal_memory_(signal_stride_ / sizeof(ChannelSignals) * static_cast<std::size_t>(ranks)),
        states_(static_cast<std::size_t>(ranks),
                std::vector<ChannelState>(Channels::count(ranks, blocks))) {}

  Channels of(int rank) {
    const auto view = [&](std::byte* base, std::size_t stride) {
      return WindowView{base + stride * static_cast<std::size_t>(rank),
                        static_cast<std::ptrdiff_t>(stride), nullptr, rank};
    };
    return {
        .slot_memory = view(slot_memory_.data(), slot_stride_),
        .signal_memory = view(reinterpret_cast<std::byte*>(signal_memory_.data()), signal_stride_),
        .states = states_[static_cast<std::size_t>(rank)].data(),
        .slots = slots,
        .slot_bytes = slot_bytes,
        .blocks = blocks,
        .rank = rank,
        .ranks = ranks_};
  }
  bool holds(const void* slot) const {
    const auto* p = static_cast<const std::byte*>(slot);
    return p >= slot_memory_.data() && p + slot_bytes <= slot_memory_.data() + slot_memory_.size();
  }
  /// All slots of all ranks, and where in them a slot lies.
  const std::vector<std::byte>& bytes() const { return slot_memory_; }
  std::size_t offset_of(const std::byte* slot) const {
    return static_cast<std::size_t>(slot - slot_memory_.data());
  }

 private:
  int ranks_;
  std::size_t slot_stride_, signal_stride_;
  std::vector<std::byte> slot_memory_;
  std::vector<ChannelSignals> signal_memory_;
  std::vector<std::vector<ChannelState>> states_;
};

}  // namespace plait
