// Plans the launches of a batch of messages: directions, blocks, and launches around copies.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/blocks/loops/move_types.hpp"
#include "algorithms/messages/pairwise/descriptor.hpp"
#include "algorithms/messages/pairwise/work.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::pairwise {
namespace {

/// A message with its place among the launches of a batch.
struct Planned {
  /// Twice the number of the meeting; one more for the direction from the higher rank.
  unsigned meeting = 0;
  bool sends = false;
  int peer = 0;
  std::size_t nth = 0;  // number in its direction
  unsigned threads = 1;
  bool may_be_copied = false;  // by a copy engine, if it is the only message that the sender sends
  Message message{};
};

/// Memory on the stack for the plan of a few messages. A larger plan allocates.
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
  const auto& way = static_cast<const PairwiseAlgorithm&>(*call.algorithm);
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

/// Plans the messages in the order of meetings and, within a direction, of calls. The i-th message
/// that a rank sends to itself matches the i-th that it receives from itself; the communicator has
/// checked that.
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
    copy.message.stripes = Partition::of(copy.message.bytes, copy.message.channels, slot_grain);
    all.push_back(copy);
  }
  const auto meets_before = [](const Planned& a, const Planned& b) {
    return a.meeting < b.meeting;
  };
  // Sorts only when needed, because the sort allocates.
  if (!std::is_sorted(all.begin(), all.end(), meets_before))
    std::stable_sort(all.begin(), all.end(), meets_before);
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].meeting == all[i - 1].meeting) all[i].nth = all[i - 1].nth + 1;
  return all;
}

/// The type of the largest size that all pointers and sizes are multiples of.
DataType element_of(std::span<const Planned> messages) {
  std::uintptr_t bits = 0;
  for (const Planned& one : messages)
    if (one.message.way != Way::open && one.message.way != Way::close)
      bits |= reinterpret_cast<std::uintptr_t>(one.message.from) |
              reinterpret_cast<std::uintptr_t>(one.message.to) | one.message.bytes;
  return move_type(bits % 8 == 0 ? 8u : bits % 4 == 0 ? 4u : bits % 2 == 0 ? 2u : 1u);
}

/// Splits each direction that sends a single pulled message, unless the launch has no other
/// direction: the message is posted before everything else, and settled behind everything.
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

/// Fills in the directions of `messages`, which are sorted by meeting, and the messages in their
/// order. Returns the most threads that a message asks for.
unsigned collect(std::span<const Planned> messages, PlanVector<Direction>& directions,
                 PlanVector<Message>& all) {
  directions.reserve(2 * messages.size());
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
  return threads;
}

/// Gives each direction its blocks, and returns how many there are. A direction may have fewer
/// blocks than channels: no more than can all run at once, which the proof in kernel.hpp needs.
unsigned assign_blocks(PlanVector<Direction>& directions, const Topology& topology) {
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
  return blocks;
}

/// Launches `messages`, which are sorted by meeting.
void launch(std::span<const Planned> messages, LaunchContext& context) {
  PlanMemory memory;
  PlanVector<Direction> directions(memory.get());
  PlanVector<Message> all(memory.get());
  const unsigned threads = collect(messages, directions, all),
                 blocks = assign_blocks(directions, context.topology());
  const bool has_lines = std::any_of(messages.begin(), messages.end(), [](const Planned& one) {
    return one.message.way == Way::lines;
  });
  const LaunchShape shape{blocks, has_lines ? whole_groups(threads, context.topology()) : threads};
  if (all.size() <= 2 && directions.size() == all.size()) {
    Args args{.paths = PairwiseAlgorithm::paths(context),
              .first = directions.front(),
              .second = directions.back(),
              .first_message = all.front(),
              .second_message = all.back()};
    if (all.size() == 1) args.second.first_block = blocks;
    return context.launch("pairwise", element_of(messages), shape, args);
  }

  const std::size_t messages_at = sizeof(Owners) + directions.size() * sizeof(Direction);
  struct alignas(16) Step {
    std::byte bytes[16];
  };
  PlanVector<Step> steps(memory.get());
  static_assert(sizeof(Owners) % sizeof(Step) == 0 && sizeof(Direction) % sizeof(Step) == 0 &&
                sizeof(Message) % sizeof(Step) == 0);
  steps.resize((messages_at + all.size() * sizeof(Message)) / sizeof(Step));
  const std::span work(reinterpret_cast<std::byte*>(steps.data()), steps.size() * sizeof(Step));
  auto* const owners = reinterpret_cast<Owners*>(work.data());
  for (std::size_t d = 0; d < directions.size(); ++d)
    std::fill_n(owners->direction + directions[d].first_block, directions[d].blocks,
                static_cast<std::uint8_t>(d));
  std::copy(directions.begin(), directions.end(),
            reinterpret_cast<Direction*>(work.data() + sizeof(Owners)));
  std::copy(all.begin(), all.end(), reinterpret_cast<Message*>(work.data() + messages_at));
  Batch args;
  args.paths = PairwiseAlgorithm::paths(context);
  args.work = context.place(work, args.few, messages.size());
  args.messages = static_cast<std::uint32_t>(messages_at);
  const std::size_t unused = sizeof(args.few) - (args.work == nullptr ? work.size() : 0);
  context.launch_batch("pairwise", element_of(messages), shape, args, unused);
}

/// Whether a copy engine moves the one message that is sent. It moves none of several messages:
/// each would have to wait until the one before it is opened and copied, but the peers may have
/// grouped the messages differently.
bool copies_one(std::span<const Planned> messages) {
  const auto is_sent = [](const Planned& one) { return one.sends; };
  return messages.size() <= 2 && std::count_if(messages.begin(), messages.end(), is_sent) == 1 &&
         std::find_if(messages.begin(), messages.end(), is_sent)->may_be_copied;
}

/// One launch, and a second one for messages that wait for a copy: at the sender, a message that a
/// copy engine moves; at the receiver, each message that it may move, even if the sender stores it
/// after all.
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

/// Cuts a batch that is too large for one launch. All ranks have work memory of the same size, and
/// they cut alike: by the numbers of meetings, and by the places of messages in their directions.
struct Cut {
  explicit Cut(const LaunchContext& context) {
    // One to the peer, one from it, and one that settles the first.
    const std::size_t directions_per_meeting = context.topology().peer_reads ? 3 : 2;
    const std::size_t each = directions_per_meeting * (sizeof(Direction) + sizeof(Message));
    const std::size_t room = context.most_work() - std::min(context.most_work(), sizeof(Owners));
    // Each direction has one block at least, and a rank's messages to itself have one more.
    const std::size_t most = Owners::most_blocks / directions_per_meeting - 1;
    meetings = std::clamp<std::size_t>(room / each, 1,
                                       std::min(most, static_cast<std::size_t>(context.ranks())));
    const std::size_t directions = directions_per_meeting * meetings;
    places = std::max<std::size_t>(1, (room - std::min(room, directions * sizeof(Direction))) /
                                          (directions * sizeof(Message)));
  }
  auto part(const Planned& one) const {
    return std::pair(one.nth / places, one.meeting / 2 / meetings);
  }

  std::size_t meetings, places;
};

}  // namespace

void PairwiseAlgorithm::enqueue_batch(std::span<const BatchedCall> calls,
                                      LaunchContext& context) const {
  PlanMemory memory;
  PlanVector<Planned> all = plan(calls, context.rank(), context.ranks(), memory);
  const bool copies = copies_one(all);
  const Cut cut(context);
  const auto earlier = [&](const Planned& a, const Planned& b) {
    return cut.part(a) < cut.part(b);
  };
  if (!std::is_sorted(all.begin(), all.end(), earlier))
    std::stable_sort(all.begin(), all.end(), earlier);  // rare: most batches are one part
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(
        begin, all.end(), [&](const Planned& one) { return cut.part(one) != cut.part(*begin); });
    launch_around_copies({begin, end}, copies, context);
    begin = end;
  }
}

}  // namespace plait::pairwise
