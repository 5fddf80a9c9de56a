#include <algorithm>
#include <array>
#include <cstddef>
#include <memory_resource>
#include <span>
#include <vector>

#include "algorithms/blocks/channels/channel_algorithm.hpp"
#include "algorithms/blocks/flags/ll_algorithm.hpp"
#include "algorithms/messages/pairwise/kernel.hpp"

namespace plait::pairwise {
namespace {

constexpr std::size_t slot_grain =
    4096;  // stripes are multiples, whatever number of threads either end has

/// Lanes of both kinds, which all messages share, what slots they get of the channels, and words
/// for messages that go straight.
class Memory {
 public:
  explicit Memory(const Topology& topology) : topology_(topology) {}

  /// With few ranks many, so that a message to one peer alone has enough blocks.
  static unsigned channels(const Topology& topology) { return topology.ranks <= 4 ? 128 : 64; }

  bool has(UnitKind unit) const {
    return unit.name == UnitKind::packet || topology_.line_threads != 0;
  }
  /// Of a lane.
  std::uint32_t slots(UnitKind unit) const {
    const bool packets = unit.name == UnitKind::packet;
    // Elsewhere half of that: all shares together just fit, where none reaches its most.
    const bool room = topology_.scratch_limit >= std::size_t{128} << 20 && topology_.ranks <= 8;
    std::size_t all = topology_.scratch_limit / (packets ? 128 : 32) / (room ? 1 : 2);
    // Together they take not quite half of the base; the channels have the other half.
    if (topology_.base_limit != 0)
      all = std::min(all, topology_.base_limit / 32 * (packets ? 3 : 12));
    return static_cast<std::uint32_t>(
        std::clamp<std::size_t>(all / (count() * unit.slot_bytes), 1, packets ? 1024 : 256));
  }
  Resources resources() const {
    return {
        .scratch_bytes = lane_bytes() + (topology_.peer_reads ? count() * sizeof(PostedAt) : 0),
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
  /// Channels of messages without slots, those of messages that are pulled apart.
  std::size_t straights() const { return topology_.peer_reads ? 2 * count() : count(); }
  std::size_t lane_bytes() const { return bytes(UnitKind::packets()) + bytes(UnitKind::lines()); }
  std::size_t credit_bytes() const {
    return count() * (sizeof(Packet) + (has(UnitKind::lines()) ? sizeof(Line) : 0));
  }
  std::size_t count() const {
    return channels(topology_) * static_cast<std::size_t>(topology_.ranks);
  }
  /// Of lanes.
  std::size_t bytes(UnitKind unit) const {
    return has(unit) ? count() * slots(unit) * unit.slot_bytes : 0;
  }

  const Topology& topology_;
};

/// A way for messages. All share launches and memory.
class Pairwise : public ChannelAlgorithm {
 public:
  explicit Pairwise(Way way) : ChannelAlgorithm(Collective::send_recv), way_(way) {}

  std::string_view family() const final { return "pairwise"; }
  Resources resources(const Topology& topology) const final { return Memory(topology).resources(); }
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
  /// Whether a copy engine moves a message that is sent alone.
  virtual bool copies() const { return false; }
  /// How a message is cut.
  Parts stripes(std::size_t bytes, unsigned channels) const {
    switch (way_) {
      case Way::packets:
        return Parts::of((bytes + packet_bytes - 1) / packet_bytes, channels);
      case Way::lines:
        return Parts::of((bytes + line_bytes - 1) / line_bytes, channels);
      default:
        return Parts::of(bytes, channels, slot_grain);
    }
  }
  /// The most channels of a message.
  unsigned most_channels(const Topology& topology) const {
    return way_ == Way::slots ? slot_channels(topology) : Memory::channels(topology);
  }

  /// Where all memory is there from the start, or has been reserved, messages share the channels of
  /// collectives. Else they have some in the base, in which a stripe has two turns: one is filled
  /// while the other is emptied.
  static ChannelMemory slot_memory(const Topology& topology) {
    if (topology.base_limit == 0) return memory(topology);
    return ChannelMemory::within(
        std::min(topology.base_limit / 2, topology.scratch_limit / 8), topology.ranks,
        std::min(Memory::channels(topology), most_blocks(topology)), "channels of messages");
  }
  static unsigned slot_channels(const Topology& topology) {
    return std::min(slot_memory(topology).blocks, Memory::channels(topology));
  }

  static Paths paths(const LaunchContext& context) {
    const Topology& topology = context.topology();
    const Memory memory(topology);
    const Grant* const reserved = context.reserved();
    const ChannelMemory slot_memory =
        reserved != nullptr ? ChannelAlgorithm::memory(topology) : Pairwise::slot_memory(topology);
    const unsigned most = slot_channels(topology),
                   turns = Channels::ways * (slot_memory.blocks / most);
    // Long chunks, as there is a signal for each (2 H200, 1 GB: 345 GB/s with 32 KB, 357 with 64
    // KB, 361 with 128 KB; 2026-11-22); in two turns at least, so that one is filled while the
    // other is emptied.
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
    // Copies within host memory hold up the thread that asks for them, until the peer has come.
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

struct Packets final : Pairwise {
  Packets() : Pairwise(Way::packets) {}
  std::string_view name() const override { return "pairwise_ll"; }
  std::string_view summary() const override {
    return "a message in packets of data and flag: the smallest ones";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of((call.bytes() + packet_bytes - 1) / packet_bytes, 128, most_channels(topology),
                     128, topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + topology.hop_us +
           2 * static_cast<double>(call.bytes()) / topology.packet_bandwidth;
  }
};

struct Lines final : Pairwise {
  Lines() : Pairwise(Way::lines) {}
  std::string_view name() const override { return "pairwise_ll128"; }
  std::string_view summary() const override {
    return "a message in lines of 128 bytes with 120 of data, where the target has them";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    const std::size_t threads =
        (call.bytes() + line_bytes - 1) / line_bytes * static_cast<unsigned>(topology.line_threads);
    return shapes_of(threads, 128, most_channels(topology),
                     threads > std::size_t{128} * most_channels(topology) ? 256 : 128, topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    const double bandwidth =
        topology.line_threads > 1 ? 0.6 * topology.push_bandwidth : topology.packet_bandwidth;
    return topology.launch_us + 1.3 * topology.hop_us +
           16.0 / 15 * static_cast<double>(call.bytes()) / bandwidth;
  }
};

struct Slots final : Pairwise {
  Slots() : Pairwise(Way::slots) {}
  std::string_view name() const override { return "pairwise_push"; }
  std::string_view summary() const override {
    return "a message in chunks through slots with credits: any size, bounded scratch";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of(call.bytes(), 2 * slot_grain, most_channels(topology),
                     std::min(256u, topology.block_threads), topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    // Two hops' worth of signals, and as much again until the first chunk is under way (2 H200, 1
    // KB to 1 GB, 2026-11-22).
    return topology.launch_us + 4 * topology.signal_us +
           static_cast<double>(call.bytes()) / topology.push_bandwidth;
  }
};

/// Straight into the receiver's buffer. Both ends do the same for either; how the bytes move is the
/// sender's business.
struct Put : Pairwise {
  Put() : Pairwise(Way::put) {}
  std::string_view name() const override { return "pairwise_put"; }
  std::string_view summary() const override {
    return "store a message straight into the receiver's buffer: symmetric memory, no scratch";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return shapes_of(call.bytes(), 8 * slot_grain, std::min(64u, most_channels(topology)),
                     std::min(256u, topology.block_threads), topology);
  }
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + 2 * topology.signal_us +
           static_cast<double>(call.bytes()) / topology.push_bandwidth;
  }
};

struct Copy final : Put {
  std::string_view name() const override { return "pairwise_copy"; }
  std::string_view summary() const override {
    return "a copy engine copies a message straight into the receiver's buffer, stores do in "
           "groups: symmetric memory, the largest "
           "messages";
  }
  bool copies() const override { return true; }
  double estimate(const Call& call, const Topology& topology) const override {
    return 2 * (topology.launch_us + topology.signal_us) + topology.copy_us +
           static_cast<double>(call.bytes()) / topology.copy_bandwidth;
  }
};

/// Out of the sender's buffer, by the receiver.
struct Pull final : Pairwise {
  Pull() : Pairwise(Way::pull) {}
  std::string_view name() const override { return "pairwise_pull"; }
  std::string_view summary() const override {
    return "the receiver reads a message where it lies, one copy: any memory; CPU ranks only";
  }
  std::vector<LaunchShape> shapes(const Call& call, const Topology& topology) const override {
    return {{.blocks = reading_blocks(call.bytes(), topology.units, most_channels(topology)),
             .threads = 1}};
  }
  /// A system call and the kernel's work per page cost too much for small messages.
  double estimate(const Call& call, const Topology& topology) const override {
    return topology.launch_us + 2 * topology.signal_us + 2.0 +
           static_cast<double>(call.bytes()) / topology.link_bandwidth;
  }
};

/// A message with its place among the launches of a batch.
struct Planned {
  unsigned meeting =
      0;  // twice the number of the meeting, and one more for the direction from the higher rank
  bool sends = false;
  int peer = 0;
  std::size_t nth = 0;  // of its direction
  unsigned threads = 1;
  bool may_be_copied = false;  // by a copy engine, if the sender sends it alone
  Message message{};
};

/// Memory on the stack for the plans of a few messages; a larger plan allocates.
class PlanMemory {
 public:
  std::pmr::memory_resource* get() { return &resource_; }

 private:
  std::array<std::byte, 2048> memory_;
  std::pmr::monotonic_buffer_resource resource_{memory_.data(), memory_.size()};
};
template <class T>
using PlanVector = std::pmr::vector<T>;

Planned planned(const BatchedCall& call, int rank, int ranks) {
  const auto& way = static_cast<const Pairwise&>(*call.algorithm);
  const bool sends = call.buffers->send != nullptr;
  const int peer = call.buffers->peer;
  const std::size_t bytes = call.call->bytes();
  const unsigned channels = call.shape.blocks;
  return {.meeting = 2 * (static_cast<unsigned>(rank + peer) % static_cast<unsigned>(ranks)) +
                     (sends == (rank <= peer) ? 0u : 1u),
          .sends = sends,
          .peer = peer,
          .threads = call.shape.threads,
          .may_be_copied = way.copies() && peer != rank,
          .message = {.from = call.buffers->send,
                      .to = sends && way.way() == Way::put && peer != rank
                                ? call.buffers->peer_recv(peer, 0)
                                : call.buffers->recv,
                      .bytes = bytes,
                      .stripes = way.stripes(bytes, channels),
                      .channels = channels,
                      .way = way.way()}};
}

/// In the order of meetings, and of the calls within a direction. The i-th message that a rank
/// sends to itself meets the i-th that it receives: core has seen to it that they match.
PlanVector<Planned> plan(std::span<const BatchedCall> calls, int rank, int ranks,
                         PlanMemory& memory) {
  PlanVector<Planned> all(memory.get());
  all.reserve(calls.size());
  PlanVector<const BatchedCall*> own_sends(memory.get()), own_receives(memory.get());
  for (const BatchedCall& call : calls) {
    if (call.buffers->peer != rank) all.push_back(planned(call, rank, ranks));
    else (call.buffers->send != nullptr ? own_sends : own_receives).push_back(&call);
  }
  for (std::size_t i = 0; i < own_sends.size(); ++i) {
    Planned copy = planned(*own_sends[i], rank, ranks);
    copy.message.to = own_receives[i]->buffers->recv;
    copy.message.way = Way::own;
    copy.message.stripes = Parts::of(copy.message.bytes, copy.message.channels, slot_grain);
    all.push_back(copy);
  }
  const auto meets_before = [](const Planned& a, const Planned& b) {
    return a.meeting < b.meeting;
  };
  // The sort allocates.
  if (!std::is_sorted(all.begin(), all.end(), meets_before))
    std::stable_sort(all.begin(), all.end(), meets_before);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].meeting == all[i - 1].meeting) all[i].nth = all[i - 1].nth + 1;
  return all;
}

/// The largest element that all pointers and sizes are multiples of.
DataType element_of(std::span<const Planned> messages) {
  std::uintptr_t bits = 0;
  for (const Planned& one : messages)
    if (one.message.way != Way::open && one.message.way != Way::close)
      bits |= reinterpret_cast<std::uintptr_t>(one.message.from) |
              reinterpret_cast<std::uintptr_t>(one.message.to) | one.message.bytes;
  return move_type(bits % 8 == 0 ? 8u : bits % 4 == 0 ? 4u : bits % 2 == 0 ? 2u : 1u);
}

/// Where a rank has more to do than to send one message that is pulled, it posts that before
/// everything else, and settles behind.
void settle_last(PlanVector<Direction>& directions, PlanVector<Message>& messages) {
  if (directions.size() < 2) return;
  const auto posts = [&](const Direction& one) {
    return one.sends != 0 && one.count == 1 && messages[one.first].way == Way::pull;
  };
  const auto others = std::stable_partition(directions.begin(), directions.end(), posts);
  const auto posted = static_cast<std::size_t>(others - directions.begin());
  for (std::size_t d = 0; d < posted; ++d) {
    Direction behind = directions[d];
    Message message = messages[behind.first];
    messages[behind.first].way = Way::post;
    message.way = Way::settle;
    behind.first = static_cast<std::uint32_t>(messages.size());
    messages.push_back(message);
    directions.push_back(behind);
  }
}

/// `messages` are sorted.
void launch(std::span<const Planned> messages, LaunchContext& context) {
  const Topology& topology = context.topology();
  PlanMemory memory;
  PlanVector<Direction> directions(memory.get());
  directions.reserve(2 * messages.size());
  PlanVector<Message> all(memory.get());
  all.reserve(2 * messages.size());
  unsigned threads = 1;
  for (std::size_t begin = 0; begin < messages.size();) {
    std::size_t end = begin;
    unsigned channels = 1;
    for (; end < messages.size() && messages[end].meeting == messages[begin].meeting; ++end) {
      all.push_back(messages[end].message);
      channels = std::max(channels, messages[end].message.channels);
      threads = std::max(threads, messages[end].threads);
    }
    directions.push_back({.peer = static_cast<std::uint32_t>(messages[begin].peer),
                          .sends = messages[begin].sends ? 1u : 0u,
                          .first = static_cast<std::uint32_t>(begin),
                          .count = static_cast<std::uint32_t>(end - begin),
                          .first_block = 0,
                          .blocks = channels,
                          .unused = {}});
    begin = end;
  }
  settle_last(directions, all);
  // A direction may have fewer blocks than channels: so many that they all run at once, which the
  // proof asks for.
  const unsigned in_all = topology.backend == BackendKind::host
                              ? Owners::most_blocks
                              : std::min(Owners::most_blocks, most_in_pairs(topology.units));
  const unsigned most = std::clamp(in_all / static_cast<unsigned>(directions.size()), 1u,
                                   std::max(topology.units, 1u));
  unsigned blocks = 0;
  for (Direction& direction : directions) {
    direction.first_block = blocks;
    direction.blocks = std::min(direction.blocks, most);
    blocks += direction.blocks;
  }

  const bool has_lines = std::any_of(messages.begin(), messages.end(), [](const Planned& one) {
    return one.message.way == Way::lines;
  });
  const LaunchShape shape{blocks, has_lines ? whole_groups(threads, topology) : threads};
  if (all.size() <= 2 && directions.size() == all.size()) {
    Args args{.paths = Pairwise::paths(context),
              .first = directions.front(),
              .second = directions.back(),
              .first_message = all.front(),
              .second_message = all.back()};
    if (all.size() == 1) args.second.first_block = blocks;
    return context.launch("pairwise", element_of(messages), shape, args);
  }

  const std::size_t messages_at = sizeof(Owners) + directions.size() * sizeof(Direction);
  struct alignas(16) Unit {
    std::byte bytes[16];
  };
  PlanVector<Unit> units(memory.get());
  static_assert(sizeof(Owners) % sizeof(Unit) == 0 && sizeof(Direction) % sizeof(Unit) == 0 &&
                sizeof(Message) % sizeof(Unit) == 0);
  units.resize((messages_at + all.size() * sizeof(Message)) / sizeof(Unit));
  const std::span work(reinterpret_cast<std::byte*>(units.data()), units.size() * sizeof(Unit));
  auto* const owners = reinterpret_cast<Owners*>(work.data());
  for (std::size_t d = 0; d < directions.size(); ++d)
    std::fill_n(owners->direction + directions[d].first_block, directions[d].blocks,
                static_cast<std::uint8_t>(d));
  std::copy(directions.begin(), directions.end(),
            reinterpret_cast<Direction*>(work.data() + sizeof(Owners)));
  std::copy(all.begin(), all.end(), reinterpret_cast<Message*>(work.data() + messages_at));
  Batch args;
  args.paths = Pairwise::paths(context);
  args.work = context.place(work, args.few, messages.size());
  args.messages = static_cast<std::uint32_t>(messages_at);
  context.launch(batch_family("pairwise"), element_of(messages), shape, args);
}

/// Whether the one message that is sent is a copy engine's. Of several, none could wait for the one
/// before it to be opened and copied: the peers may have grouped them in another way.
bool copies_one(std::span<const Planned> messages) {
  const auto is_sent = [](const Planned& one) { return one.sends; };
  return messages.size() <= 2 && std::count_if(messages.begin(), messages.end(), is_sent) == 1 &&
         std::find_if(messages.begin(), messages.end(), is_sent)->may_be_copied;
}

/// A launch, and another one for what waits for a copy: the sender of a copy engine's message, and
/// the receiver of one that may be such a copy, even if the sender stores it after all.
void launch_around_copies(std::span<Planned> messages, bool copies, LaunchContext& context) {
  PlanMemory memory;
  PlanVector<Planned> rest(memory.get());
  for (Planned& one : messages) {
    if (!one.may_be_copied || (one.sends && !copies)) continue;
    one.message.way = Way::open;
    rest.push_back(one);
  }
  launch(messages, context);
  if (rest.empty()) return;
  for (Planned& one : rest) {
    if (one.sends) context.copy(one.message.to, one.message.from, one.message.bytes);
    one.message.way = Way::close;
  }
  launch(rest, context);
}

/// What one launch may have of a batch. Ranks have work memory of one size, so a batch that is too
/// large for it is cut alike on all of them: by the numbers of meetings, and by the places of
/// messages in their directions.
struct Cut {
  explicit Cut(const LaunchContext& context) {
    // To the peer, from it, and what is settled of it.
    const std::size_t directions_a_meeting = context.topology().peer_reads ? 3 : 2;
    const std::size_t each = directions_a_meeting * (sizeof(Direction) + sizeof(Message));
    const std::size_t room = context.most_work() - std::min(context.most_work(), sizeof(Owners));
    const std::size_t most = Owners::most_blocks / directions_a_meeting -
                             1;  // one block a direction; a rank's own has one more
    meetings = std::clamp<std::size_t>(room / each, 1,
                                       std::min(most, static_cast<std::size_t>(context.ranks())));
    const std::size_t directions = directions_a_meeting * meetings;
    places = std::max<std::size_t>(1, (room - std::min(room, directions * sizeof(Direction))) /
                                          (directions * sizeof(Message)));
  }
  auto part(const Planned& one) const {
    return std::pair(one.nth / places, one.meeting / 2 / meetings);
  }

  std::size_t meetings, places;
};

void Pairwise::enqueue_batch(std::span<const BatchedCall> calls, LaunchContext& context) const {
  PlanMemory memory;
  PlanVector<Planned> all = plan(calls, context.rank(), context.ranks(), memory);
  const bool copies = copies_one(all);
  const Cut cut(context);
  const auto earlier = [&](const Planned& a, const Planned& b) {
    return cut.part(a) < cut.part(b);
  };
  if (!std::is_sorted(all.begin(), all.end(), earlier))
    std::stable_sort(all.begin(), all.end(), earlier);  // mostly they are one part
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(
        begin, all.end(), [&](const Planned& one) { return cut.part(one) != cut.part(*begin); });
    launch_around_copies({begin, end}, copies, context);
    begin = end;
  }
}

const AlgorithmRegistration<Packets> packets;
const AlgorithmRegistration<Lines> lines;
const AlgorithmRegistration<Slots> slots;
const AlgorithmRegistration<Put> puts;
const AlgorithmRegistration<Copy> copies;
const AlgorithmRegistration<Pull> pulls;

}  // namespace
}  // namespace plait::pairwise
