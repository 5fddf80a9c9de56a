#include "communicator/groups/open_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "communicator/groups/group_check.hpp"
#include "core/thread_team.hpp"
#include "plait/group.hpp"

namespace plait {
namespace {

constinit thread_local OpenGroup* group_of_thread = nullptr;  // null before its first use
constinit thread_local bool group_is_gone = false;

}  // namespace

/// Static objects, communicators among them, may be destroyed after the thread's own objects. They
/// get a group to which no call is added any more.
OpenGroup& OpenGroup::first_of_thread() {
  struct Own {
    OpenGroup group;
    ~Own() {
      group_is_gone = true;
      group_of_thread = nullptr;
    }
  };
  if (group_is_gone) {
    static auto* const none = new OpenGroup;
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
  return found != parts_.end() ? *found : parts_.emplace_back(Part{&member, {}, {}});
}

bool OpenGroup::add(GroupMember& member, const std::function<void()>& prepare) {
  if (!error_ || !member.prepares_together()) return add(prepare);
  ++made_;
  try {
    prepare();
  } catch (const Error&) {  // the first error counts
  }
  return false;
}

bool OpenGroup::add(const std::function<void()>& prepare) {
  ++made_;
  if (error_) return false;
  try {
    prepare();
    return true;
  } catch (const Error& error) {
    keep(error, made_);
    return false;
  }
}

void OpenGroup::take_back() {
  const auto is_of_it = [this](const auto& entry) { return entry.number == made_; };
  for (Part& part : parts_) {
    std::erase_if(part.calls, is_of_it);
    std::erase_if(part.comparisons, is_of_it);
  }
}

void OpenGroup::fail(const Error& error) {
  ++made_;
  if (!error_) keep(error, made_);
}

void OpenGroup::keep(const Error& error, std::size_t number) {
  if (what_ != any_group) error_.emplace(error);
  else
    error_.emplace(
        error.code(),
        fmt::format("group: call {}: {}; nothing of the group was enqueued", number, error.what()));
  failed_ = number;
}

/// PLAIT_CHECK=1. The comparisons wait for other ranks as kernels do, so they take the order of the
/// parts: then no order of the calls can deadlock here either. If this thread drives several ranks
/// of a communicator, each has a thread. All comparisons are made even if one fails, because ranks
/// of another communicator wait for them and may hear nothing of the failure. The error of the
/// first call counts.
void OpenGroup::compare(const std::vector<Part>& parts) {
  struct Failure {
    Error error;
    std::size_t number;
  };
  if (std::all_of(parts.begin(), parts.end(),
                  [](const Part& part) { return part.comparisons.empty(); }))
    return;
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto end = std::find_if(begin, parts.end(), [&](const Part& part) {
      return part.member->birth() != begin->member->birth();
    });
    std::vector<std::vector<Failure>> failures(static_cast<std::size_t>(end - begin));
    const auto compare_part = [&](std::size_t index) {
      std::size_t failed = 0;  // calls are numbered from 1
      for (const auto& [number, compare] : begin[static_cast<std::ptrdiff_t>(index)].comparisons) {
        if (number == failed) continue;
        try {
          compare();
        } catch (const Error& error) {
          failures[index].push_back({error, failed = number});
        }
      }
    };
    if (failures.size() == 1) compare_part(0);
    else ThreadTeam("a thread for each rank", failures.size()).run(failures.size(), compare_part);
    for (const auto& of_part : failures)
      for (const auto& [error, number] : of_part)
        if (!error_ || number <= failed_) keep(error, number);
    begin = end;
  }
}

bool OpenGroup::has_calls_of(const GroupMember& member) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return part.member == &member && !part.calls.empty();
  });
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
  if (error_) return;
  error_.emplace(
      ErrorCode::invalid_argument,
      fmt::format("group: a {} with calls in it was destroyed; nothing of the group was enqueued",
                  what));
  failed_ = 0;
}

void OpenGroup::check_captures(const std::vector<Part>& parts) const {
  const GroupedCall* captured = nullptr;
  const GroupedCall* plain = nullptr;
  for (const Part& part : parts) {
    // The last call whose stream was asked about: most groups have one stream.
    const GroupedCall* asked = nullptr;
    for (const GroupedCall& call : part.calls) {
      if (asked != nullptr && asked->stream == call.stream) continue;
      asked = &call;
      (part.member->is_capturing(call.stream) ? captured : plain) = &call;
    }
  }
  if (captured != nullptr && plain != nullptr)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: stream {} is being captured and stream {} is not: a {} is "
                    "captured wholly or not at all; nothing of it was enqueued",
                    what_, captured->stream, plain->stream, what_ == any_group ? what_ : "call"));
}

void OpenGroup::check_memory(const std::vector<Part>& parts) const {
  std::vector<MemberCalls> members;
  members.reserve(parts.size());
  for (const Part& part : parts)
    members.push_back({part.calls, part.member->rank(), part.member->birth()});
  check_places(members, what_);
  check_disjoint(members, what_);
}

/// A part is a rank's calls of one communicator. Parts are enqueued in the order of their
/// communicators' births, in whatever order the calls were made, and those of one communicator, if
/// this thread drives several ranks, one behind the other.
///
/// Why a group can't deadlock. The premises are those of plait/group.hpp: the ranks of each
/// communicator make its collectives in the same groups, both ends of its messages are in groups
/// alike, and calls of two communicators that are in one group on one rank are in one group on
/// every rank that makes both. So groups can be taken as steps, and it remains to show that a step
/// ends if those before it on the same streams and communicators end.
///
/// Suppose one does not. Let C be the communicator with the least birth of which a part of the step
/// has not ended on some rank, and look at any part of C. On the device it waits for
/// - the earlier work of its streams and of its communicator: of earlier steps, which end;
/// - parts of this step that were enqueued before it, if they have a stream in common with it or
///   streams that events tie together. They belong to communicators with lesser births, whose parts
///   have all ended. Only what is enqueued later waits for C, so a stream that joins several parts
///   changes nothing;
/// - the parts of C on other ranks. The same holds for these, so all of them begin. They launch the
///   same steps in the same order (plan_group), messages first, so all of them end, as calls do
///   outside a group. A rank that has no part of C is not waited for: it is no member, or it has no
///   message, and C no collective.
///
/// On the host, enqueueing a part may wait for room in its communicator's work FIFO or in a queue
/// of launches, which only work of C and of what has ended occupies. It comes if the other ranks'
/// parts of C are enqueued. They are: on another thread (turns_of), or one behind the other if they
/// are short. Growth starts for all parts before any is waited for (begin_growth). So C's parts are
/// enqueued and end, which contradicts the choice of C.
///
/// It takes one order of all communicators. An order for each two of them, the same on all ranks
/// that have both, is not enough: with a before b on rank 0, b before c on rank 1 and c before a on
/// rank 2 all three wait. The order of first use is not even that, because a rank without a message
/// of a communicator may come to it later than the others.
void OpenGroup::put_in_order(std::vector<Part>& parts) {
  const auto place = [](const Part& part) {
    return std::pair(part.member->birth(), part.member->rank());
  };
  std::sort(parts.begin(), parts.end(),
            [&](const Part& a, const Part& b) { return place(a) < place(b); });
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
  put_in_order(parts);
  std::vector<InUse::Scope> inside;
  std::vector<PlannedPart> planned;
  try {
    inside.reserve(parts.size());
    for (const Part& part : parts)
      if (!error_ || !part.comparisons.empty())  // else no other rank waits for this one
        inside.emplace_back(part.member->in_use(), "group_end");
    compare(parts);
    if (error_) throw Error(*error_);
    std::erase_if(parts, [](const Part& part) { return part.calls.empty(); });
    check_captures(parts);
    check_memory(parts);
    for (Part& part : parts)
      planned.push_back({part.member, part.member->plan(std::move(part.calls), what_)});
  } catch (const Error& error) {
    error_.reset();
    publish_refused(parts, planned, error);
    throw;
  }
  enqueue_parts(planned);
}

/// On all members, because nothing of the group was enqueued: also on those that have nothing to do
/// with the error. `planned` has the calls of the first ones.
void OpenGroup::publish_refused(const std::vector<Part>& parts,
                                const std::vector<PlannedPart>& planned,
                                const Error& why) noexcept {
  const Error refusal(ErrorCode::invalid_argument, why.what());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    GroupMember& member = *parts[i].member;
    try {
      RefusedNumbers refused = parts[i].refused;
      for (const GroupedCall& grouped : i < planned.size() ? planned[i].plan.calls : parts[i].calls)
        if (const PreparedCall& call = grouped.call; !call.is_message()) refused.collective = true;
        else if (!call.is_one_sided())  // no other rank counts on those
          refused.add({.peer = call.buffers.peer, .sends = call.sends});
      const InUse::Scope inside(member.in_use(), "group_end");
      member.publish_refused(refused, refusal);
    } catch (const std::exception&) {  // another thread has the member
    }
  }
}

void OpenGroup::discard(const char* why) {
  if (depth_ == 0) return;  // the user has ended it by hand
  if (--depth_ != 0) {
    if (error_) return;
    error_.emplace(ErrorCode::invalid_argument, why);
    failed_ = 0;
    return;
  }
  publish_refused(parts_, {}, error_ ? *error_ : Error(ErrorCode::invalid_argument, why));
  cancel();
}

void OpenGroup::cancel() noexcept {
  depth_ = 0;
  failed_ = 0;
  made_ = 0;
  parts_.clear();
  error_.reset();
}

void group_start() { OpenGroup::of_thread().start(); }
void group_end() { OpenGroup::of_thread().end(); }
void refuse_group(const std::string& why) noexcept { OpenGroup::of_thread().discard(why.c_str()); }
void cancel_group() noexcept { OpenGroup::of_thread().cancel(); }
bool group_is_open() noexcept { return OpenGroup::of_thread().is_open(); }

void Group::leave(bool by_exception) {
  if (OpenGroup::of_thread().is_left_behind()) return;
  if (by_exception)
    OpenGroup::of_thread().discard(
        "group: one within it was left by an exception; nothing of it was enqueued");
  else group_end();
}

void Group::end() {
  if (!open_) return;  // a group that is open now is one around this
  open_ = false;
  group_end();
}

}  // namespace plait
