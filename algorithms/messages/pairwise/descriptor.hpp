// The memory that messages travel through, and the base class of their descriptors, one for each
// way.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/flags/ll_algorithm.hpp"
#include "algorithms/messages/pairwise/work.hpp"

namespace plait::pairwise {

/// The lanes of packets and lines, and the words and counters of messages that travel straight or
/// are pulled. All messages share them.
class Memory {
 public:
  explicit Memory(const Topology& topology) : topology_(topology) {}

  /// More with few ranks, so that a message to a single peer has enough blocks.
  static unsigned channels(const Topology& topology) { return topology.ranks <= 4 ? 128 : 64; }

  bool has(UnitKind unit) const {
    return unit.name == UnitKind::packet || topology_.line_threads != 0;
  }
  /// Slots per lane.
  std::uint32_t slots(UnitKind unit) const {
    const bool packets = unit.name == UnitKind::packet;
    // Half as many elsewhere: there, the shares of all algorithms together just fit if none of them
    // reaches its most.
    const bool room = topology_.scratch_limit >= std::size_t{128} << 20 && topology_.ranks <= 8;
    std::size_t all = topology_.scratch_limit / (packets ? 128 : 32) / (room ? 1 : 2);
    // The lanes take a little less than half of the base; the channels have the other half.
    if (topology_.base_limit != 0)
      all = std::min(all, topology_.base_limit / 32 * (packets ? 3 : 12));
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(all / (count() * unit.slot_bytes), 1, packets ? 1024 : 256));
  }
  Resources resources() const {
    return {
        .scratch_bytes = lane_bytes() + (topology_.peer_reads ? count() * posted_bytes : 0),
        .signals = credit_bytes() / sizeof(std::uint32_t) + 2 * straights(),
        .counters = (count() * 2 * sizeof(LaneCounters) + straights() * sizeof(StraightCounters)) /
                    sizeof(std::uint32_t)};
  }
  Lanes lanes(UnitKind unit, const Grant& grant) const {
    const bool packets = unit.name == UnitKind::packet;
    return {.units = grant.scratch.at(packets ? 0 : bytes(UnitKind::packets())),
            .credits = grant.signals.at(packets ? 0 : count() * sizeof(Packet)),
            .slots = slots(unit),
            .counters = reinterpret_cast<LaneCounters*>(grant.counters) + (packets ? 0 : count())};
  }
  Straight straight(const Grant& grant) const {
    return {.words = grant.signals.at(credit_bytes()),
            .posted = grant.scratch.at(topology_.peer_reads ? lane_bytes() : 0),
            .counters = reinterpret_cast<StraightCounters*>(
                reinterpret_cast<LaneCounters*>(grant.counters) + 2 * count()),
            .channels = channels(topology_)};
  }

 private:
  static constexpr std::size_t posted_bytes = sizeof(PostedAt) + sizeof(std::uint32_t);

  /// Pairs of channel and peer for messages without slots; pulled ones have a set for themselves.
  std::size_t straights() const { return topology_.peer_reads ? 2 * count() : count(); }
  std::size_t lane_bytes() const { return bytes(UnitKind::packets()) + bytes(UnitKind::lines()); }
  std::size_t credit_bytes() const {
    return count() * (sizeof(Packet) + (has(UnitKind::lines()) ? sizeof(Line) : 0));
  }
  /// Pairs of channel and peer.
  std::size_t count() const {
    return channels(topology_) * static_cast<std::size_t>(topology_.ranks);
  }
  /// The bytes of all lanes of one kind.
  std::size_t bytes(UnitKind unit) const {
    return has(unit) ? count() * slots(unit) * unit.slot_bytes : 0;
  }

  const Topology& topology_;
};

/// Stripes are multiples of this many bytes, whatever number of threads either end has.
inline constexpr std::size_t slot_grain = 4096;

/// One way for messages. All ways share launches and memory.
class PairwiseAlgorithm : public ChannelAlgorithm {
 public:
  explicit PairwiseAlgorithm(Way way) : ChannelAlgorithm(Collective::send_recv), way_(way) {}

  StaticName family() const final { return "pairwise"; }
  bool spans_nodes() const final { return way_ == Way::slots; }
  Resources resources(const Topology& topology) const final {
    return topology.nodes == 1 ? Memory(topology).resources() : Resources{};
  }
  SharedResources shared(const Topology& topology) const final {
    return slot_memory(topology).resources();
  }
  SharedResources shared_once_reserved(const Topology& topology) const final {
    return memory(topology).resources();
  }
  bool batches(const Topology&) const final { return true; }

  LaunchShape fitted(LaunchShape shape, const Call& call, const Topology& topology) const final {
    return {std::min(std::max(shape.blocks, least_blocks(call.bytes())), most_channels(topology)),
            way_ == Way::lines ? whole_groups(shape.threads, topology) : shape.threads};
  }
  void enqueue(const Call& call, const Buffers& buffers, LaunchShape shape,
               LaunchContext& context) const final {
    const BatchedCall one{&call, &buffers, this, shape};
    enqueue_batch({&one, 1}, context);
  }
  void enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const final;

  Way way() const { return way_; }
  /// Whether a copy engine moves the message if it is the only one that is sent.
  virtual bool copies() const { return false; }
  /// Cuts a message into one stripe per channel.
  Partition stripes(std::size_t bytes, unsigned channels) const {
    switch (way_) {
      case Way::packets:
        return Partition::of((bytes + packet_bytes - 1) / packet_bytes, channels);
      case Way::lines:
        return Partition::of((bytes + line_bytes - 1) / line_bytes, channels);
      default:
        return Partition::of(bytes, channels, slot_grain);
    }
  }
  /// The most channels of a message.
  unsigned most_channels(const Topology& topology) const {
    return way_ == Way::slots ? slot_channels(topology) : Memory::channels(topology);
  }

  /// Messages share the channels of collectives where all memory is there from the start, or has
  /// been reserved. Otherwise they have channels in the base, where each stripe has two turns: one
  /// is filled while the other is emptied.
  static ChannelMemory slot_memory(const Topology& topology) {
    if (topology.base_limit == 0) return memory(topology);
    return ChannelMemory::within(std::min(topology.base_limit / 2, topology.scratch_limit / 8),
                                 topology.ranks,
                                 std::min(Memory::channels(topology), most_blocks(topology)),
                                 "channels of messages", std::size_t{256} << 10);
  }
  static unsigned slot_channels(const Topology& topology) {
    return std::min(slot_memory(topology).blocks, Memory::channels(topology));
  }

  static Paths paths(const LaunchContext& context) {
    const Topology& topology = context.topology();
    const Memory memory(topology);
    const Grant* const reserved = context.reserved();
    const ChannelMemory slot_memory = reserved != nullptr
                                          ? ChannelAlgorithm::memory(topology)
                                          : PairwiseAlgorithm::slot_memory(topology);
    const unsigned most = slot_channels(topology),
                   turns = Channels::ways * (slot_memory.blocks / most);
    // One slot per channel makes long chunks, which need few signals (2 H200, 1 GB: 345 GB/s with
    // 32 KB, 357 with 64 KB, 361 with 128 KB; 2026-11-22). A stripe has at least two turns, so that
    // one is filled while the other is emptied.
    constexpr std::uint32_t slots = 1;
    return {.packets = memory.lanes(UnitKind::packets(), context.grant()),
            .lines = memory.lanes(UnitKind::lines(), context.grant()),
            .straight = memory.straight(context.grant()),
            .process = static_cast<std::int32_t>(context.process()),
            .slots = channels(context, slots, slot_memory,
                              reserved != nullptr ? *reserved : context.shared()),
            .channels = most,
            .turns = turns};
  }

 protected:
  static constexpr std::size_t line_bytes = UnitKind::lines().data_bytes;

  Support supports_call(const Call& call, const Topology& topology) const final {
    // Copies within host memory would block the calling thread until the peer has come.
    if (copies() && !topology.peer_access)
      return Support::no("devices must reach each other's memory");
    if (way_ == Way::put && !call.symmetric)
      return Support::no(
          "the sender must know where the receiver's buffer lies in symmetric memory "
          "(CallOptions::symmetric)");
    if (way_ == Way::pull && !topology.peer_reads)
      return Support::no(
          "ranks can't read each other's ordinary memory here (PLAIT_HOST_PEER_READS)");
    return way_ == Way::lines && topology.line_threads == 0
               ? Support::no("the target has no packets of that size")
               : Support();
  }

  static std::vector<LaunchShape> shapes_of(std::size_t items, std::size_t grain, unsigned most,
                                            unsigned threads, const Topology& topology) {
    if (topology.backend == BackendKind::host)
      return {{.blocks = std::min(topology.units, most), .threads = topology.block_threads}};
    std::vector<LaunchShape> shapes;
    for (const std::size_t each : {grain, 2 * grain, 4 * grain})
      shapes.push_back({blocks_for(items, each, most), threads});
    return shapes;
  }

 private:
  Way way_;
};

}  // namespace plait::pairwise
