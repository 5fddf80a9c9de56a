// The way of every call of a communicator, once its arguments are known: refused or planned, then
// published and launched, or repeated if it is known.
#pragma once
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "communicator/calls/known_calls.hpp"
#include "communicator/calls/launcher.hpp"
#include "communicator/calls/preparer.hpp"
#include "communicator/calls/publisher.hpp"
#include "communicator/groups/group_member.hpp"
#include "communicator/resources/faults.hpp"
#include "communicator/resources/resources.hpp"
#include "plait/statistics.hpp"

namespace plait {

/// Why `step` fails, if it does.
template <class Step>
std::optional<Error> refusal_of(Step step) {
  try {
    step();
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return Error(ErrorCode::backend, error.what());
  }
  return std::nullopt;
}

/// The plan of a call outside a group, kept so that the next one need not allocate.
struct KeptPlan {
  GroupPlan plan;
  bool is_taken = false;
};

/// A plan for one call, in the memory of a kept one. A call within a call, by a user's algorithm,
/// gets other memory. The destructor empties the plan, also if the call is refused, because
/// prepared calls hold the symmetric memory that they use.
class PlanOfOneCall {
 public:
  explicit PlanOfOneCall(KeptPlan& kept)
      : kept_(std::exchange(kept.is_taken, true) ? nullptr : &kept),
        plan_(kept_ != nullptr ? kept_->plan : other_.emplace()) {
    plan_.is_published = false;
    plan_.record = nullptr;
  }
  ~PlanOfOneCall() {
    if (kept_ == nullptr) return;
    plan_.calls.clear();
    kept_->is_taken = false;
  }
  PlanOfOneCall(const PlanOfOneCall&) = delete;
  PlanOfOneCall& operator=(const PlanOfOneCall&) = delete;
  GroupPlan& operator*() { return plan_; }
  GroupPlan* operator->() { return &plan_; }

 private:
  KeptPlan* kept_;  // null: its plan was taken
  std::optional<GroupPlan> other_;
  GroupPlan& plan_;
};

class CallPath final : public GroupMember {
 public:
  CallPath(CommunicatorResources& own, const Faults& faults)
      : own_(own),
        faults_(faults),
        preparer_(own),
        publisher_(*own.board, own.rank(), own.algorithms) {}
  /// Makes the launcher. After CommunicatorResources::make_local, and local, too.
  void start();

  CallPreparer& preparer() noexcept { return preparer_; }
  CallLauncher& launcher() noexcept { return *launcher_; }
  const CallLauncher& launcher() const noexcept { return *launcher_; }
  /// How many calls were enqueued by repeating a known call.
  std::uint64_t repeated_calls() const noexcept { return repeated_; }
  Statistics statistics() const;

  /// Runs `body`, which may refuse a call. A refused call takes its numbers all the same:
  /// `numbers()`.
  template <class Numbers, class Body>
  auto or_refuse(Numbers numbers, Body body) {
    try {
      return body();
    } catch (const std::exception& error) {
      publish_refused(numbers(), error);
      throw;
    }
  }
  /// Refuses a call: throws the error, or lets the group throw it at its end. `numbers`: what the
  /// other ranks count on. `together`: with PLAIT_CHECK=1 they throw it, too.
  void refuse(const Error& error, const RefusedNumbers& numbers, bool together = false);
  /// PLAIT_CHECK=1: throws on all ranks if one refuses the call. Else `compare` compares it.
  template <class Compare>
  void agree_on_call(const std::optional<Error>& refusal, Compare compare) const {
    const BootstrapHooks::Purpose purpose(*own_.bootstrap, "a collective call (PLAIT_CHECK=1)");
    agree(*own_.bootstrap, "PLAIT_CHECK", [&] {
      faults_.throw_if_broken();
      if (refusal) throw *refusal;
    });
    compare();
  }

  /// Nothing is kept where more is done for a call than to launch it: where ranks compare their
  /// calls, where calls are traced or logged, and between nodes.
  KnownCalls::Found find_known(const Request& request) {
    if (!keeps_calls_ || preparer_.says_choices()) return {};
    return known_.find(request, memory_state());
  }
  bool knows(const Request& request) const { return known_.has(request, memory_state()); }
  /// Enqueues a known call again. `refused()`: as for `or_refuse`. True if a call that blocks has
  /// ended, as `CommunicatorState::synchronize` would find it.
  template <class Refused>
  bool repeat(const KnownCall& known, std::string_view what, NativeStream stream,
              const CallOptions& options, Refused refused) {
    or_refuse(refused, [&] { check_again(what, stream, options); });
    return launch_again(known, stream, options.blocking);
  }
  /// The two halves of `repeat`.
  void check_again(std::string_view what, NativeStream stream, const CallOptions& options) const {
    preparer_.check_stream(what, stream, options);
    faults_.throw_if_broken();
  }
  bool launch_again(const KnownCall& known, NativeStream stream, bool waits = false);

  void plan_steps(GroupPlan& plan);
  /// Submits a plan of one call, and keeps that if it is to be learned.
  void submit(GroupPlan& plan, const LearnedCall& learned);

  bool prepares_together() const override { return own_.settings.check_calls; }
  void publish_refused(const RefusedNumbers& numbers, const std::exception& why) override;
  bool is_capturing(NativeStream stream) override;
  GroupPlan plan(std::vector<GroupedCall>&& calls, std::string_view what) override;
  void submit(GroupPlan& plan) override {
    submit(plan, plan.calls.size() == 1 ? plan.calls.front().learned : LearnedCall{});
  }
  bool grows(const GroupPlan& plan) const override { return !launcher_->has_room(plan); }
  void publish(GroupPlan& plan) override { publisher_.publish(plan); }
  void grow(const GroupPlan& plan) override;
  NativeStream resolve(NativeStream stream) const override { return own_.backend->resolve(stream); }
  const void* queue(NativeStream stream) const override { return own_.backend->queue(stream); }
  int rank() const override { return own_.rank(); }
  const Birth& birth() const override { return own_.birth; }
  void abort(std::string_view reason) override { faults_.abort(reason); }
  InUse& in_use() override { return own_.in_use; }

 private:
  void check_attached(std::span<const GroupedCall> calls) const;
  MemoryState memory_state() const { return {own_.heap.allocations(), own_.memory->grants()}; }
  void enqueue(GroupPlan& plan);
  void keep(KnownCall& known, const Request& request, const GroupPlan& plan) const noexcept;
  void make_room(const GroupPlan& plan);

  CommunicatorResources& own_;
  const Faults& faults_;
  CallPreparer preparer_;
  CallPublisher publisher_;
  std::optional<CallLauncher> launcher_;
  KnownCalls known_;
  bool keeps_calls_ = false;
  std::uint64_t groups_ = 0, repeated_ = 0;
};

}  // namespace plait
