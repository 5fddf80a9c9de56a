// The calls that a thread has made since `group_start`, and how those of one communicator become
// launches.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "communicator/fault/call_log.hpp"
#include "core/in_use.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// A call that was checked, with its choice made.
struct PreparedCall {
  Call call;
  Buffers buffers;
  const Algorithm* algorithm = nullptr;
  LaunchShape shape;
  bool wished = false;  // the algorithm, by the user
  bool shares = false;  // whether it gains by sharing a launch
  bool sends = false;   // of a message: this end
  bool done_already =
      false;      // nothing is to be launched, but it has its place in the order of calls
  Place place{};  // of a call in symmetric memory
  std::shared_ptr<const Window> send_memory,
      recv_memory;  // that is symmetric: it may be freed before the call is enqueued
  std::chrono::steady_clock::time_point begin{}, end{};  // of the preparation, for traces

  bool is_message() const { return call.collective == Collective::send_recv; }  // one end of it
  /// The peer is told of it, and nothing is sent.
  bool is_empty_message() const { return is_message() && call.count == 0; }
};

/// What a rank has to do with a message.
struct MessageEnd {
  bool sends;  // else it receives
  int peer;    // the other rank
  void* buffer;
  std::size_t count;
  void* receiver = nullptr;  // its buffer, as it is called on this rank: of symmetric messages
  bool always =
      false;  // the peer has its end also if the message is empty, and is told of this one
};

/// A call, or a part of one: an end of a message, or what one device has to do of a call on
/// several.
struct GroupedCall {
  PreparedCall call;
  NativeStream stream;
  std::size_t number = 1;  // of the call in its group, rising; all parts of a call have the same
};

/// What becomes one call of an algorithm: `calls`, numbered as given, share launches if they are
/// several.
struct GroupStep {
  const Algorithm* algorithm;
  LaunchShape shape;  // of a single call
  std::vector<std::size_t> calls;
};

/// The calls of one communicator in a group.
struct GroupPlan {
  std::vector<GroupedCall> calls;
  std::vector<GroupStep> steps;
  bool is_published = false;
};

/// A communicator as groups, and groups of devices, see it.
class GroupMember {
 public:
  /// Everything before the first word to the device. None: the call has nothing to do. Throws what
  /// is wrong with the call.
  virtual std::optional<PreparedCall> prepare(const Call& call, const void* send, void* recv,
                                              NativeStream stream, const CallOptions& options) = 0;
  /// Whether `prepare` waits for the other ranks (PLAIT_CHECK=1).
  virtual bool prepares_together() const = 0;
  virtual void enqueue(const PreparedCall& call, NativeStream stream) = 0;

  virtual bool is_capturing(NativeStream stream) = 0;
  /// Plans its calls of a group. Throws if they can't be enqueued together.
  virtual GroupPlan plan(std::vector<GroupedCall> calls) = 0;
  virtual void enqueue(GroupPlan& plan) = 0;
  /// Whether `enqueue` waits for the other ranks, because scratch memory must be allocated with
  /// them. `publish`, and then `grow` by any thread, may come before it and do that part of it.
  virtual bool grows(const GroupPlan& plan) const = 0;
  virtual void publish(GroupPlan& plan) = 0;
  virtual void grow(const GroupPlan& plan) = 0;

  /// As those of Backend.
  virtual NativeStream resolve(NativeStream stream) const = 0;
  virtual const void* queue(NativeStream stream) const = 0;
  virtual int rank() const = 0;
  /// The same for all ranks of a communicator in this process, and for nothing else.
  virtual const void* communicator() const = 0;
  /// Which symmetric memory a call is in, in words that are the same on all ranks.
  virtual std::string places(const PreparedCall& call) const = 0;
  virtual void abort(std::string_view reason) = 0;
  /// As Watchdog's.
  virtual bool was_told() const = 0;
  virtual void tell() = 0;
  /// Held by whoever calls any of the others but `abort`.
  virtual InUse& in_use() = 0;

 protected:
  ~GroupMember() = default;
};

/// The group of a thread.
class OpenGroup {
 public:
  static OpenGroup& of_thread();

  /// Calls of one member up to which enqueueing them all waits for none of them: they fit into the
  /// least work FIFO and into a device's queue of launches.
  static constexpr std::size_t calls_in_turn = 32;

  bool is_open() const noexcept { return depth_ > 0; }
  /// The group that was open here is the parent's, from which this process was forked; no other has
  /// been started since.
  bool is_left_behind() const noexcept { return left_behind_; }
  void start() {
    ++depth_;
    left_behind_ = false;
  }
  void end();
  /// Instead of `end`: forgets the outermost group, or makes it fail at its end.
  void discard(const char* why);

  /// Notes what `prepare` returns, or the error that it throws. None: a call that has nothing to
  /// do.
  void add(GroupMember& member, NativeStream stream,
           const std::function<std::optional<PreparedCall>()>& prepare);
  /// Notes a call that was refused before a member saw it.
  void fail(const Error& error);
  /// The same for one call of several parts: `prepare` notes each with `add_part`.
  void add(const std::function<void()>& prepare);
  /// Other threads may enqueue it at the group's end, so `stream` is resolved here.
  void add_part(GroupMember& member, const PreparedCall& call, NativeStream stream) {
    part_of(member).calls.push_back({call, member.resolve(stream), made_});
  }
  bool has_calls_of(const GroupMember& member) const;
  /// The member is being destroyed. Returns how many calls of it are in the group, which won't be
  /// enqueued.
  std::size_t forget(const GroupMember& member);
  /// The same for a stream.
  std::size_t forget(NativeStream stream);

 private:
  struct Part {
    GroupMember* member;
    std::vector<GroupedCall> calls;
  };
  static OpenGroup& first_of_thread();
  Part& part_of(GroupMember& member);
  void leave_behind();
  void keep(const Error& error);
  void lose(const char* what);
  static void check_captures(const std::vector<Part>& parts);
  static void check_memory(const std::vector<Part>& parts);
  using Turns = std::vector<std::size_t>;  // numbers of parts that are enqueued one after another
  static std::vector<Turns> turns_of(const std::vector<Part>& parts);
  static void begin_growth(const std::vector<Part>& parts, std::vector<GroupPlan>& plans,
                           std::vector<std::future<void>>& growth);
  static void launch(const std::vector<Part>& parts, const std::vector<Turns>& turns,
                     std::vector<GroupPlan>& plans);

  Origin origin_;  // of the calls below
  bool left_behind_ = false;
  int depth_ = 0;
  std::size_t made_ = 0;  // calls
  std::vector<Part> parts_;
  std::optional<Error> error_;
};

/// Which calls of one communicator share launches: those of one type, operation and scale that gain
/// by it, and all messages, which come first. Empty messages need none. Nothing is moved over a
/// barrier. But for the messages, depends only on what is equal on all ranks. `choose_batch`: as
/// Selector::choose_batch. `steps` become these, in the memory that it has.
void plan_group(std::span<const GroupedCall> calls,
                const std::function<const Algorithm*(const Call&)>& choose_batch,
                std::vector<GroupStep>& steps);

/// A member's calls in a group.
struct MemberCalls {
  std::span<const GroupedCall> calls;
  int rank;
  const void* communicator;  // as GroupMember::communicator
};

/// Throws Error(invalid_argument) if a call writes what another one reads or writes, unless a
/// barrier of their communicator lies between them. `what`: the group, or the call that they are
/// parts of.
void check_disjoint(std::span<const MemberCalls> members, std::string_view what = "group");
/// Throws Error(invalid_argument) unless what the rank sends to itself is what it receives from
/// itself, both in the same way.
void check_own_messages(std::span<const GroupedCall> calls, int rank,
                        std::string_view what = "group");

}  // namespace plait
