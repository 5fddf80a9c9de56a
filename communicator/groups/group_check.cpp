#include "communicator/groups/group_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

/// A range of memory that a call reads or writes.
struct MemoryUse {
  std::uintptr_t begin, end;
  std::size_t communicator;  // as the index of its first member
  std::size_t stretch;       // counts the member's barriers before the call
  std::size_t index;         // of the call among all calls of all members
  const MemberCalls* member;
  const GroupedCall* call;
  bool writes;
};

/// The use that reaches farthest, and the one that reaches farthest among those of all other
/// owners. Both are needed, because an owner's use must not hide that of another owner.
class Farthest {
 public:
  void add(const MemoryUse& use, std::size_t owner) {
    const Reach reach{use.end, owner, &use};
    if (owner == first_.owner) {
      if (reach.end > first_.end) first_ = reach;
    } else if (reach.end > first_.end) {
      second_ = std::exchange(first_, reach);
    } else if (reach.end > second_.end) {
      second_ = reach;
    }
  }
  /// A use by another owner that overlaps `use`; null if there is none. `use` must begin no earlier
  /// than any that was added.
  const MemoryUse* overlapped(const MemoryUse& use, std::size_t owner) const {
    const Reach& other = first_.owner == owner ? second_ : first_;
    return use.begin < other.end ? other.use : nullptr;
  }

 private:
  struct Reach {
    std::uintptr_t end = 0;
    std::size_t owner = 0;
    const MemoryUse* use = nullptr;
  };
  Reach first_, second_;
};

/// Calls `conflict(a, b)` for uses of two owners that overlap, if one of them writes. `uses` are
/// sorted by their begins.
template <class Conflict>
void find_overlap(std::span<const MemoryUse> uses, std::size_t MemoryUse::*owner,
                  const Conflict& conflict) {
  Farthest all, writes;
  for (const MemoryUse& use : uses) {
    if (const MemoryUse* other = (use.writes ? all : writes).overlapped(use, use.*owner))
      conflict(*other, use);
    all.add(use, use.*owner);
    if (use.writes) writes.add(use, use.*owner);
  }
}

std::vector<MemoryUse> uses_of(std::span<const MemberCalls> members) {
  std::vector<MemoryUse> uses;
  std::size_t index = 0;
  for (const MemberCalls& member : members) {
    const auto same = [&](const MemberCalls& other) {
      return other.communicator == member.communicator;
    };
    const auto communicator = static_cast<std::size_t>(
        std::find_if(members.begin(), members.end(), same) - members.begin());
    std::size_t stretch = 0;
    for (const GroupedCall& grouped : member.calls) {
      const auto& [call, buffers] = std::tie(grouped.call.call, grouped.call.buffers);
      const auto add = [&](const void* pointer, std::size_t bytes, bool writes) {
        const auto at = reinterpret_cast<std::uintptr_t>(pointer);
        if (pointer != nullptr && bytes != 0)
          uses.push_back({at, at + bytes, communicator, stretch, index, &member, &grouped, writes});
      };
      if (buffers.one_sided.reader_handle < 0)  // else an address in another process
        add(buffers.send, send_bytes(call), false);
      add(buffers.recv, recv_bytes(call), true);
      ++index;
      if (call.collective == Collective::barrier) ++stretch;
    }
  }
  return uses;
}

/// True for one call, or two disjoint messages, of one member: seen without a list of uses. False
/// if that takes the list.
bool are_few_and_disjoint(std::span<const MemberCalls> members) {
  if (members.size() != 1) return false;
  const std::span<const GroupedCall> calls = members.front().calls;
  if (calls.size() < 2) return true;  // check_call has compared a call's own two buffers
  const auto is_end = [](const GroupedCall& one) {  // of a message, which has one buffer
    return one.call.is_message() && !one.call.is_one_sided();
  };
  if (calls.size() > 2 || !is_end(calls[0]) || !is_end(calls[1])) return false;
  const auto use = [](const PreparedCall& message) {
    const void* const buffer =
        message.buffers.send != nullptr ? message.buffers.send : message.buffers.recv;
    const auto begin = reinterpret_cast<std::uintptr_t>(buffer);
    return std::pair(begin, begin + message.call.bytes());
  };
  const auto a = use(calls[0].call), b = use(calls[1].call);
  return a.second <= b.first || b.second <= a.first;
}

}  // namespace

void check_disjoint(std::span<const MemberCalls> members, std::string_view what) {
  if (are_few_and_disjoint(members)) return;
  const auto conflict = [&](const MemoryUse& a, const MemoryUse& b) {
    const bool swapped = std::tuple(b.call->number, b.index) < std::tuple(a.call->number, a.index);
    const MemoryUse &first = swapped ? b : a, &second = swapped ? a : b;
    const auto block = [](const MemoryUse& use) {
      const auto& [call, buffers] = std::tie(use.call->call.call, use.call->call.buffers);
      if (!use.call->call.is_message()) return fmt::format("the block of rank {}", call.root);
      return fmt::format("the block {} rank {}", buffers.send != nullptr ? "for" : "from",
                         buffers.peer);
    };
    std::string which;
    if (first.member != second.member && what != any_group)
      which = fmt::format("ranks {} and {}", first.member->rank, second.member->rank);
    else if (first.member != second.member)
      which = fmt::format(
          "call {}, {} on rank {}, and call {}, {} on rank {}{},", first.call->number,
          name_of(first.call->call.call.collective), first.member->rank, second.call->number,
          name_of(second.call->call.call.collective), second.member->rank,
          first.communicator == second.communicator ? "" : " of another communicator");
    else if (what == "send_recv") which = fmt::format("rank {}: send and recv", first.member->rank);
    else if (what != any_group)
      which = fmt::format("rank {}: {} and {}", first.member->rank, block(first), block(second));
    else if (first.call->number == second.call->number)
      which = fmt::format("rank {}: messages of call {}", first.member->rank, first.call->number);
    else
      which = fmt::format("rank {}: calls {} and {}", first.member->rank, first.call->number,
                          second.call->number);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} use the same memory, and one writes it, at {:#x}: they have no "
                            "order; nothing of the {} was enqueued",
                            what, which, b.begin, what));
  };
  std::vector<MemoryUse> uses = uses_of(members);
  // The order of equal begins only decides which calls the error names.
  const auto stretch_of = [](const MemoryUse& use) {
    return std::tuple(use.communicator, use.stretch);
  };
  const auto place_of = [](const MemoryUse& use) {
    return std::tuple(use.begin, use.index, use.writes);
  };
  std::sort(uses.begin(), uses.end(), [&](const MemoryUse& a, const MemoryUse& b) {
    return std::tuple(stretch_of(a), place_of(a)) < std::tuple(stretch_of(b), place_of(b));
  });
  // All ranks of a communicator make the same barriers, so stretches of one number may run at the
  // same time. Uses of one call are not compared: check_call has done that.
  for (auto begin = uses.begin(); begin != uses.end();) {
    const auto end = std::find_if(begin, uses.end(), [&](const MemoryUse& use) {
      return stretch_of(use) != stretch_of(*begin);
    });
    find_overlap({begin, end}, &MemoryUse::index, conflict);
    begin = end;
  }
  // Nothing orders calls of two communicators.
  if (uses.empty() || uses.front().communicator == uses.back().communicator) return;
  std::sort(uses.begin(), uses.end(),
            [&](const MemoryUse& a, const MemoryUse& b) { return place_of(a) < place_of(b); });
  find_overlap(uses, &MemoryUse::communicator, conflict);
}

void check_own_messages(std::span<const GroupedCall> calls, int rank, std::string_view what) {
  std::vector<const PreparedCall*> sent, received;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {} sends to itself: {}; nothing of the {} was enqueued", what,
                            rank, why, what));
  };
  for_each_stretch(calls, [&](std::size_t begin, std::size_t end) {
    sent.clear();
    received.clear();
    for (const GroupedCall& grouped : calls.subspan(begin, end - begin))
      if (grouped.call.is_message() && grouped.call.buffers.peer == rank &&
          !grouped.call.is_one_sided())
        (grouped.call.buffers.send != nullptr ? sent : received).push_back(&grouped.call);
    if (sent.size() != received.size())
      refuse(fmt::format(
          "{} messages, and receives {}: both ends must be in one group, with no barrier between",
          sent.size(), received.size()));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const PreparedCall &from = *sent[i], &to = *received[i];
      if (from.call.count != to.call.count || from.call.type != to.call.type)
        refuse(fmt::format("in message {} {} {} elements, and receives {} {}", i + 1,
                           from.call.count, name_of(from.call.type), to.call.count,
                           name_of(to.call.type)));
      if (from.algorithm != to.algorithm || from.shape != to.shape)
        refuse(fmt::format(
            "message {} by {} with {} blocks of {} threads, and receives by {} with {} of {}",
            i + 1, from.algorithm->name(), from.shape.blocks, from.shape.threads,
            to.algorithm->name(), to.shape.blocks, to.shape.threads));
    }
  });
}

void check_places(std::span<const MemberCalls> members, std::string_view what) {
  const auto is_collective = [](const GroupedCall& call) { return !call.call.is_message(); };
  const auto place = [](const PreparedCall& call) {
    return std::tuple(call.call.symmetric, call.call.in_place, call.place);
  };
  for (std::size_t m = 1; m < members.size(); ++m) {
    const MemberCalls &a = members[m - 1], &b = members[m];
    if (a.communicator != b.communicator) continue;
    auto other = b.calls.begin();
    for (const GroupedCall& one : a.calls) {
      if (!is_collective(one)) continue;
      other = std::find_if(other, b.calls.end(), is_collective);
      if (other == b.calls.end()) break;
      if (place(one.call) != place(other->call))
        throw Error(
            ErrorCode::mismatch,
            fmt::format("{}: rank {} passes {}, rank {} {}: pass the same place of the same "
                        "symmetric memory on all ranks, or on none; nothing of the {} was enqueued",
                        what, b.rank, describe_places(other->call), a.rank,
                        describe_places(one.call), what));
      ++other;
    }
  }
}

std::string describe_places(const PreparedCall& prepared) {
  const Call& call = prepared.call;
  if (!call.symmetric) return "ordinary memory";
  const auto place = [](const Window& window, const void* pointer) {
    return fmt::format("symmetric memory {} + {} bytes", window.number(),
                       static_cast<const std::byte*>(pointer) - window.local());
  };
  const auto send = [&] { return place(*prepared.send_memory, prepared.buffers.send); };
  const auto recv = [&] { return place(*prepared.recv_memory, prepared.buffers.recv); };
  const CollectiveFacts facts = facts_of(call.collective);
  if (call.in_place)  // the smaller buffer is the rank's own block of the larger one
    return (facts.send.size == BufferFacts::Size::one_per_rank ? send() : recv()) + ", in place";
  if (facts.send.root_only) return recv();
  if (facts.recv.root_only) return send();
  return send() + ", " + recv();
}

}  // namespace plait
