// The group that is open on a thread: the calls made since `group_start`.
#pragma once
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator/groups/group_check.hpp"
#include "communicator/groups/group_launch.hpp"
#include "communicator/groups/group_member.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"

namespace plait {

class OpenGroup {
 public:
  static OpenGroup& of_thread();

  bool is_open() const noexcept { return depth_ > 0; }
  /// The group was opened in the process that this one was forked from, and none has been started
  /// here since.
  bool is_left_behind() const noexcept { return left_behind_; }
  void start() {
    if (depth_++ == 0) what_ = any_group;
    left_behind_ = false;
  }
  /// Instead of `start`, outside of any group: starts a group that is one call, which
  /// `add_prepared` adds to several members. Errors name the call, `what`, and not the group.
  void start_call(std::string_view what) {
    start();
    what_ = what;
    made_ = 1;
  }
  void end();
  /// Replaces `end`: refuses the calls of the outermost group; makes an inner one fail at the
  /// outermost end.
  void discard(const char* why);
  /// Ends all groups, as if their calls had never been made.
  void cancel() noexcept;

  /// Adds one call: `prepare` adds what it consists of with `add_prepared`. Keeps the error that
  /// `prepare` throws. False if the group has failed, with this call or before: then `refuse` must
  /// tell what the other ranks count on.
  bool add(const std::function<void()>& prepare);
  /// The same for a call whose `prepare` lets the other ranks know of it, by `compare_at_end` or by
  /// waiting for them. It runs even if this group has failed, because the other ranks' groups may
  /// not have failed.
  bool add(GroupMember& member, const std::function<void()>& prepare);
  /// Lets the end call `compare`, which waits for the other ranks and throws if they don't agree on
  /// the call that is being added. If it throws, later ones of the same call are left out.
  void compare_at_end(GroupMember& member, std::function<void()> compare) {
    part_of(member).comparisons.push_back({made_, std::move(compare)});
  }
  /// If the group fails, the member's ranks count on `numbers`, beside those of the calls that were
  /// added.
  void refuse(GroupMember& member, const RefusedNumbers& numbers) {
    if (!numbers.are_none()) part_of(member).refused.add(numbers);
  }
  /// Resolves `stream` here, because another thread may enqueue the call at the group's end.
  /// `learned`: only for a group of `start_call`, which ends before the caller returns.
  void add_prepared(GroupMember& member, const PreparedCall& call, NativeStream stream,
                    const LearnedCall& learned = {}) {
    part_of(member).calls.push_back({call, member.resolve(stream), made_, 0, learned});
  }
  /// Removes what has been added of the current call, from all members. For a call that this thread
  /// makes on all ranks and that is refused.
  void take_back();
  /// Counts a call that was refused before a member saw it, and keeps its error.
  void fail(const Error& error);
  bool has_calls_of(const GroupMember& member) const;
  /// Drops the calls of a member that is being destroyed, which makes the group fail. Returns how
  /// many there were.
  std::size_t forget(const GroupMember& member);
  /// The same for a stream.
  std::size_t forget(NativeStream stream);

 private:
  struct Comparison {
    std::size_t number;  // of the call in the group
    std::function<void()> compare;
  };
  struct Part {
    GroupMember* member;
    std::vector<GroupedCall> calls;
    std::vector<Comparison> comparisons;
    RefusedNumbers refused{};  // beside `calls`
  };
  static OpenGroup& first_of_thread();
  Part& part_of(GroupMember& member);
  void leave_behind();
  void keep(const Error& error, std::size_t number);
  void compare(const std::vector<Part>& parts);
  static void publish_refused(const std::vector<Part>& parts,
                              const std::vector<PlannedPart>& planned, const Error& why) noexcept;
  void lose(const char* what);
  static void put_in_order(std::vector<Part>& parts);
  void check_captures(const std::vector<Part>& parts) const;
  void check_memory(const std::vector<Part>& parts) const;

  Origin origin_;  // the process in which the calls below were made
  bool left_behind_ = false;
  int depth_ = 0;
  std::string_view what_ = any_group;  // or the only call
  std::size_t made_ = 0;               // calls
  std::vector<Part> parts_;
  std::optional<Error> error_;
  std::size_t failed_ = 0;  // the call that `error_` is about; 0: none alone
};

/// For libnccl: instead of the end of this thread's group, refuses its calls, or forgets them as if
/// they had never been made.
void refuse_group(const std::string& why) noexcept;
void cancel_group() noexcept;

/// Calls `body` in a group of its own, inside the thread's group if there is one. plait::Group is
/// for programs: it counts exceptions on their way, and not all programs share the library's.
template <class Body>
void in_group(Body body) {
  OpenGroup& group = OpenGroup::of_thread();
  group.start();
  try {
    body();
  } catch (...) {
    group.discard("an exception has left the group");
    throw;
  }
  group.end();
}

}  // namespace plait
