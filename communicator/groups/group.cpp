#include "communicator/groups/group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "core/thread_team.hpp"
#include "core/thread_word.hpp"
#include "plait/group.hpp"

namespace plait {

namespace {
PLAIT_THREAD_WORD OpenGroup* group_of_thread = nullptr;  // once it has one
PLAIT_THREAD_WORD bool group_is_gone = false;
}  // namespace

/// Static objects, communicators among them, may be destroyed after what is a thread's own.
OpenGroup& OpenGroup::first_of_thread() {
  struct Own {
    OpenGroup group;
    ~Own() {
      group_is_gone = true;
      group_of_thread = nullptr;
    }
  };
  if (group_is_gone) {
    static auto* const none = new OpenGroup;  // where nothing is collected any more
    return *none;
  }
  thread_local Own own;
  group_of_thread = &own.group;
  return own.group;
}

OpenGroup& OpenGroup::of_thread() {
  OpenGroup& own = group_of_thread != nullptr ? *group_of_thread : first_of_thread();
  if (!own.origin_.is_here()) own.leave_behind();
  return own;
}

void OpenGroup::leave_behind() {
  const bool was_open = is_open();
  *this = OpenGroup();
  left_behind_ = was_open;
}

OpenGroup::Part& OpenGroup::part_of(GroupMember& member) {
  const auto found = std::find_if(parts_.begin(), parts_.end(),
                                  [&](const Part& part) { return part.member == &member; });
  return found != parts_.end() ? *found : parts_.emplace_back(Part{&member, {}});
}

void OpenGroup::add(GroupMember& member, NativeStream stream,
                    const std::function<std::optional<PreparedCall>()>& prepare) {
  const auto note = [&] {
    if (const auto call = prepare()) add_part(member, *call, stream);
  };
  if (!error_ || !member.prepares_together()) return add(note);
  // The other ranks, whose group may be fine yet, wait for this one.
  ++made_;
  try {
    note();
  } catch (const Error&) {  // the first counts
  }
}

void OpenGroup::add(const std::function<void()>& prepare) {
  ++made_;
  if (error_) return;
  try {
    prepare();
  } catch (const Error& error) {
    keep(error);
  }
}

void OpenGroup::fail(const Error& error) {
  ++made_;
  if (!error_) keep(error);
}

void OpenGroup::keep(const Error& error) {
  error_.emplace(error.code(), fmt::format("group: call {}: {}; nothing of the group was enqueued",
                                           made_, error.what()));
}

bool OpenGroup::has_calls_of(const GroupMember& member) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const Part& part) { return part.member == &member; });
}

std::size_t OpenGroup::forget(const GroupMember& member) {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const Part& other) { return other.member == &member; });
  if (part == parts_.end()) return 0;
  const std::size_t calls = part->calls.size();
  parts_.erase(part);
  lose("communicator");
  return calls;
}

std::size_t OpenGroup::forget(NativeStream stream) {
  std::size_t calls = 0;
  for (Part& part : parts_)
    calls +=
        std::erase_if(part.calls, [&](const GroupedCall& call) { return call.stream == stream; });
  if (calls != 0) lose("stream");
  return calls;
}

void OpenGroup::lose(const char* what) {
  if (!error_)
    error_.emplace(
        ErrorCode::invalid_argument,
        fmt::format("group: a {} with calls in it was destroyed; nothing of the group was enqueued",
                    what));
}

void OpenGroup::check_captures(const std::vector<Part>& parts) {
  const GroupedCall* captured = nullptr;
  const GroupedCall* plain = nullptr;
  for (const Part& part : parts) {
    const GroupedCall* asked = nullptr;  // most groups have one stream: it is asked about once
    for (const GroupedCall& call : part.calls) {
      if (asked != nullptr && asked->stream == call.stream) continue;
      asked = &call;
      (part.member->is_capturing(call.stream) ? captured : plain) = &call;
    }
  }
  if (captured != nullptr && plain != nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("group: stream {} is being captured and stream {} is not: a group is "
                            "captured wholly or not at all; nothing of "
                            "it was enqueued",
                            captured->stream, plain->stream));
}

void OpenGroup::check_memory(const std::vector<Part>& parts) {
  std::vector<MemberCalls> members;
  members.reserve(parts.size());
  for (const Part& part : parts)
    members.push_back({part.calls, part.member->rank(), part.member->communicator()});
  check_disjoint(members);
}

void OpenGroup::end() {
  if (left_behind_)
    throw Error(ErrorCode::invalid_argument,
                "group_end: the group was started in the process that this one was forked from, "
                "and is not here");
  if (depth_ == 0)
    throw Error(ErrorCode::invalid_argument, "group_end: no group was started on this thread");
  if (--depth_ != 0) return;
  made_ = 0;
  std::vector<Part> parts = std::exchange(parts_, {});
  if (error_) throw *std::exchange(error_, std::nullopt);
  std::vector<InUse::Scope> inside;
  inside.reserve(parts.size());
  for (const Part& part : parts) inside.emplace_back(part.member->in_use(), "group_end");
  check_captures(parts);
  check_memory(parts);
  const std::vector<Turns> turns = turns_of(parts);
  std::vector<GroupPlan> plans;
  for (Part& part : parts) plans.push_back(part.member->plan(std::move(part.calls)));
  launch(parts, turns, plans);
}

/// Where one thread drives several ranks, a call on the first may wait for the same call on the
/// second. So enqueueing many calls on the first must not wait until some of them are done, for
/// room in the work FIFO or in the device's queue of launches: each queue gets a thread. What is in
/// one queue keeps its order, which must be that of the other ranks.
std::vector<OpenGroup::Turns> OpenGroup::turns_of(const std::vector<Part>& parts) {
  const bool long_ones = std::any_of(parts.begin(), parts.end(), [](const Part& part) {
    return part.calls.size() > calls_in_turn;
  });
  if (!long_ones || parts.size() < 2) {
    Turns all(parts.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return {std::move(all)};
  }
  struct Taken {
    std::vector<const void*> queues;
    Turns turns;
  };
  std::vector<Taken> all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Taken mine;
    for (const GroupedCall& call : parts[i].calls) {
      const void* queue = parts[i].member->queue(call.stream);
      if (std::find(mine.queues.begin(), mine.queues.end(), queue) == mine.queues.end())
        mine.queues.push_back(queue);
    }
    // Together with all that have a queue in common with it, and so with each other.
    const auto apart = [&](const Taken& other) {
      return std::find_first_of(mine.queues.begin(), mine.queues.end(), other.queues.begin(),
                                other.queues.end()) == mine.queues.end();
    };
    const auto first = std::stable_partition(all.begin(), all.end(), apart);
    for (auto other = first; other != all.end(); ++other) {
      mine.queues.insert(mine.queues.end(), other->queues.begin(), other->queues.end());
      mine.turns.insert(mine.turns.end(), other->turns.begin(), other->turns.end());
    }
    all.erase(first, all.end());
    std::sort(mine.turns.begin(), mine.turns.end());
    mine.turns.push_back(i);
    all.push_back(std::move(mine));
  }
  std::vector<Turns> turns;
  for (Taken& taken : all) turns.push_back(std::move(taken.turns));
  return turns;
}

/// Communicators whose scratch memory must grow wait for their ranks, each on a thread, because
/// another rank may come to them in another order. Before that the ranks are told of all calls, so
/// those in different calls notice. `growth` becomes one for each part, if any: where it is valid,
/// the part is enqueued once that has ended.
void OpenGroup::begin_growth(const std::vector<Part>& parts, std::vector<GroupPlan>& plans,
                             std::vector<std::future<void>>& growth) {
  if (parts.size() < 2) return;
  std::vector<std::size_t> growing;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (parts[i].member->grows(plans[i])) growing.push_back(i);
  if (growing.empty()) return;
  growth.resize(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].member->publish(plans[i]);
  for (const std::size_t i : growing)
    growth[i] = std::async(std::launch::async,
                           [member = parts[i].member, &plan = plans[i]] { member->grow(plan); });
}

void OpenGroup::launch(const std::vector<Part>& parts, const std::vector<Turns>& turns,
                       std::vector<GroupPlan>& plans) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const std::exception& error) {
      {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
      // At once: what is enqueued of the group waits for what is not, and other threads may wait
      // for that.
      for (const Part& part : parts)
        part.member->abort(
            fmt::format("a part of a group could not be enqueued: {}", error.what()));
    }
  };
  std::vector<std::future<void>> growth;
  attempt([&] { begin_growth(parts, plans, growth); });
  const auto take_turns = [&](std::size_t thread) {
    attempt([&] {
      for (const std::size_t i : turns[thread]) {
        if (!growth.empty() && growth[i].valid()) growth[i].get();
        parts[i].member->enqueue(plans[i]);
      }
    });
  };
  if (!first) {
    if (turns.size() > 1)
      ThreadTeam("a thread for each device", turns.size()).run(turns.size(), take_turns);
    else take_turns(0);
  }
  if (first) std::rethrow_exception(first);
}

void OpenGroup::discard(const char* why) {
  if (depth_ == 0) return;  // somebody ended it by hand
  if (--depth_ != 0) {
    if (!error_) error_.emplace(ErrorCode::invalid_argument, why);
    return;
  }
  made_ = 0;
  parts_.clear();
  error_.reset();
}

namespace {

/// Runs `body(begin, end)` for the stretches between barriers, and each barrier.
template <class Body>
void for_each_stretch(std::span<const GroupedCall> calls, Body body) {
  const auto is_barrier = [&](std::size_t i) {
    return calls[i].call.call.collective == Collective::barrier;
  };
  for (std::size_t begin = 0; begin < calls.size();) {
    std::size_t end = begin + 1;
    if (!is_barrier(begin))
      while (end < calls.size() && !is_barrier(end)) ++end;
    body(begin, end);
    begin = end;
  }
}

bool may_share(const PreparedCall& a, const PreparedCall& b) {
  if (a.is_message() || b.is_message())
    return a.call.collective == b.call.collective && a.algorithm->family() == b.algorithm->family();
  return a.shares && b.shares && a.call.collective == b.call.collective &&
         a.call.type == b.call.type && a.call.op == b.call.op && a.call.root == b.call.root &&
         a.call.scale == b.call.scale && a.wished == b.wished &&
         (!a.wished || a.algorithm == b.algorithm);
}

/// Messages of one family become one step, in the memory that `steps` has. Returns false if `calls`
/// are something else.
bool plan_one_family(std::span<const GroupedCall> calls, std::vector<GroupStep>& steps) {
  steps.resize(1);
  GroupStep& step = steps.front();
  step.calls.clear();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PreparedCall& call = calls[i].call;
    if (!call.is_message()) return false;
    if (call.is_empty_message()) continue;
    if (step.calls.empty()) {
      step.algorithm = call.algorithm;
      step.shape = call.shape;
    } else if (call.algorithm != step.algorithm &&
               call.algorithm->family() != step.algorithm->family()) {
      return false;
    }
    step.calls.push_back(i);
  }
  if (step.calls.empty()) steps.clear();
  return true;
}

}  // namespace

void plan_group(std::span<const GroupedCall> calls,
                const std::function<const Algorithm*(const Call&)>& choose_batch,
                std::vector<GroupStep>& steps) {
  if (plan_one_family(calls, steps)) return;  // the way of send_recv, which allocates nothing
  steps.clear();
  for_each_stretch(calls, [&](std::size_t begin, std::size_t end) {
    const auto first = static_cast<std::ptrdiff_t>(steps.size());
    const auto add = [&](std::size_t i) {
      const PreparedCall& call = calls[i].call;
      const auto step = std::find_if(
          steps.begin() + first, steps.end(),
          [&](const GroupStep& other) { return may_share(calls[other.calls.front()].call, call); });
      if (step == steps.end()) steps.push_back({call.algorithm, call.shape, {i}});
      else step->calls.push_back(i);
    };
    const auto is_message = [&](std::size_t i) { return calls[i].call.is_message(); };
    for (std::size_t i = begin; i < end; ++i)
      if (is_message(i) && !calls[i].call.is_empty_message()) add(i);
    // Ranks may name the families in any order, but must launch them in one.
    std::sort(steps.begin() + first, steps.end(), [](const GroupStep& a, const GroupStep& b) {
      return a.algorithm->family() < b.algorithm->family();
    });
    for (std::size_t i = begin; i < end; ++i)
      if (!is_message(i)) add(i);
    for (auto step = steps.begin() + first; step != steps.end(); ++step) {
      const PreparedCall& one = calls[step->calls.front()].call;
      if (step->calls.size() == 1 || one.wished || one.is_message()) continue;
      Call all = one.call;
      all.count = 0;
      all.symmetric = all.in_place = false;
      for (const std::size_t i : step->calls) all.count += calls[i].call.call.count;
      if (const Algorithm* batching = choose_batch(all)) {
        step->algorithm = batching;
        continue;
      }
      // So many at once nobody serves.
      const std::vector<std::size_t> singles = std::exchange(step->calls, {step->calls.front()});
      for (auto i = singles.begin() + 1; i != singles.end(); ++i)
        step = steps.insert(step + 1, {calls[*i].call.algorithm, calls[*i].call.shape, {*i}});
    }
  });
}

namespace {

/// What a call does with memory.
struct MemoryUse {
  std::uintptr_t begin, end;
  std::size_t communicator;  // the first member of it
  std::size_t stretch;       // barriers of the member before
  std::size_t part;          // another one for each call of each member, rising
  const MemberCalls* member;
  const GroupedCall* call;
  bool writes;
};

/// Of uses by several owners, the one that reaches farthest, and the one that does among those of
/// all other owners: what an owner does itself must not hide what another one does.
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
  /// A use by another owner that `use` overlaps, which begins no earlier than all that were added.
  /// Null: there is none.
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

/// Calls `conflict(a, b)` for uses of two owners that overlap, if one writes. `uses` are in the
/// order of their begins.
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
  std::size_t part = 0;
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
          uses.push_back({at, at + bytes, communicator, stretch, part, &member, &grouped, writes});
      };
      add(buffers.send, send_bytes(call), false);
      add(buffers.recv, recv_bytes(call), true);
      ++part;
      if (call.collective == Collective::barrier) ++stretch;
    }
  }
  return uses;
}

/// Whether the one call, or the two messages, of one member are disjoint, which is seen without a
/// list of uses. False: they may be.
bool are_few_and_disjoint(std::span<const MemberCalls> members) {
  if (members.size() != 1) return false;
  const std::span<const GroupedCall> calls = members.front().calls;
  if (calls.size() < 2)
    return true;  // a call's own two buffers may overlap: check_call has seen to that
  if (calls.size() > 2 || !calls[0].call.is_message() || !calls[1].call.is_message()) return false;
  const auto use = [](const PreparedCall& message) {  // it has one of the buffers
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
    const bool swapped = std::tuple(b.call->number, b.part) < std::tuple(a.call->number, a.part);
    const MemoryUse &first = swapped ? b : a, &second = swapped ? a : b;
    const auto block = [](const MemoryUse& use) {
      const Buffers& buffers = use.call->call.buffers;
      return fmt::format("the block {} rank {}", buffers.send != nullptr ? "for" : "from",
                         buffers.peer);
    };
    std::string which;
    if (first.member != second.member)
      which = fmt::format(
          "call {}, {} on rank {}, and call {}, {} on rank {}{},", first.call->number,
          name_of(first.call->call.call.collective), first.member->rank, second.call->number,
          name_of(second.call->call.call.collective), second.member->rank,
          first.communicator == second.communicator ? "" : " of another communicator");
    else if (what == "send_recv") which = fmt::format("rank {}: send and recv", first.member->rank);
    else if (what != "group")
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
  // The order of equal begins decides nothing but which calls are named.
  const auto stretch_of = [](const MemoryUse& use) {
    return std::tuple(use.communicator, use.stretch);
  };
  const auto place_of = [](const MemoryUse& use) {
    return std::tuple(use.begin, use.part, use.writes);
  };
  std::sort(uses.begin(), uses.end(), [&](const MemoryUse& a, const MemoryUse& b) {
    return std::tuple(stretch_of(a), place_of(a)) < std::tuple(stretch_of(b), place_of(b));
  });
  // All ranks of a communicator make the same barriers. A call's own two buffers may overlap:
  // check_call has seen to that.
  for (auto begin = uses.begin(); begin != uses.end();) {
    const auto end = std::find_if(begin, uses.end(), [&](const MemoryUse& use) {
      return stretch_of(use) != stretch_of(*begin);
    });
    find_overlap({begin, end}, &MemoryUse::part, conflict);
    begin = end;
  }
  // Nothing orders those of two communicators.
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
      if (grouped.call.is_message() && grouped.call.buffers.peer == rank)
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

void group_start() { OpenGroup::of_thread().start(); }
void group_end() { OpenGroup::of_thread().end(); }
bool group_is_open() noexcept { return OpenGroup::of_thread().is_open(); }

Group::Group() : exceptions_(std::uncaught_exceptions()) { group_start(); }

Group::~Group() noexcept(false) {
  if (!open_ || OpenGroup::of_thread().is_left_behind()) return;
  if (std::uncaught_exceptions() > exceptions_)
    OpenGroup::of_thread().discard(
        "group: one within it was left by an exception; nothing of it was enqueued");
  else group_end();
}

void Group::end() {
  if (!open_) return;  // what is open now is a group around it
  open_ = false;
  group_end();
}

}  // namespace plait
