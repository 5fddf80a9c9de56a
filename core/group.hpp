// The calls that a thread has made since `group_start`, and how those of one communicator become launches.
#pragma once
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/algorithm.hpp"
#include "plait/error.hpp"

namespace plait {

/// A call that was checked, with its choice made.
struct PreparedCall {
  Call call;
  Buffers buffers;
  const Algorithm* algorithm = nullptr;
  LaunchShape shape;
  bool wished = false;                                   // the algorithm, by the user
  bool shares = false;                                   // whether it gains by sharing a launch
  std::chrono::steady_clock::time_point begin{}, end{};  // of the preparation, for traces
};

struct GroupedCall {
  PreparedCall call;
  NativeStream stream;
};

/// A communicator as a group sees it.
class GroupMember {
 public:
  virtual bool is_capturing(NativeStream stream) = 0;
  /// Plans its calls of a group. Throws if they can't be enqueued together. The result enqueues them.
  virtual std::function<void()> plan(std::vector<GroupedCall> calls) = 0;

 protected:
  ~GroupMember() = default;
};

/// The group of a thread.
class OpenGroup {
 public:
  static OpenGroup& of_thread();

  bool is_open() const noexcept { return depth_ > 0; }
  void start() { ++depth_; }
  void end();
  /// Instead of `end`: forgets the outermost group, or makes it fail at its end.
  void discard(const char* why);

  /// Notes what `prepare` returns, or the error that it throws. None: a call that has nothing to do.
  void add(GroupMember& member, NativeStream stream, const std::function<std::optional<PreparedCall>()>& prepare);
  bool has_calls_of(const GroupMember& member) const;
  /// The member is being destroyed.
  void forget(const GroupMember& member);

 private:
  struct Part {
    GroupMember* member;
    std::vector<GroupedCall> calls;
  };
  Part& part_of(GroupMember& member);
  static void check_captures(const std::vector<Part>& parts);

  int depth_ = 0;
  std::size_t made_ = 0;  // calls
  std::vector<Part> parts_;
  std::optional<Error> error_;
};

/// What becomes one call of an algorithm: `calls`, numbered as given, share launches if they are several.
struct GroupStep {
  const Algorithm* algorithm;
  LaunchShape shape;  // of a single call
  std::vector<std::size_t> calls;
};

/// Which calls of one communicator share launches: those of one type, operation and scale that gain by it. Nothing is moved over a barrier.
/// Depends only on what is equal on all ranks. `choose_batch`: as Selector::choose_batch.
std::vector<GroupStep> plan_group(std::span<const GroupedCall> calls, const std::function<const Algorithm*(const Call&)>& choose_batch);

/// Throws Error(invalid_argument) if a call writes what another one reads or writes, unless a barrier lies between them.
void check_disjoint(std::span<const GroupedCall> calls, int rank);

}  // namespace plait
