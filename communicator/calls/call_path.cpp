#include "communicator/calls/call_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"

namespace plait {

void CallPath::start() {
  launcher_.emplace(own_, publisher_, [this] { faults_.throw_if_broken(); });
  keeps_calls_ = !own_.settings.check_calls && !own_.trace && !own_.other_nodes;
}

void CallPath::refuse(const Error& error, const RefusedNumbers& numbers, bool together) {
  // With PLAIT_CHECK=1 the other ranks wait for this one to agree with them.
  const bool is_heard = together && prepares_together();
  const auto tell = [this, error] { agree_on_call(error, [] {}); };
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open())
    return or_refuse([&] { return numbers; },
                     [&] {
                       if (is_heard) tell();
                       throw error;
                     });
  group.add(*this, [&] {
    if (!is_heard) throw error;
    group.compare_at_end(*this, tell);
  });
  group.refuse(*this, numbers);
}

/// Only for errors of this rank alone: an error that all ranks have ends the call on each of them.
void CallPath::publish_refused(const RefusedNumbers& numbers, const std::exception& why) {
  const auto* const error = dynamic_cast<const Error*>(&why);
  switch (error != nullptr ? error->code() : ErrorCode::invalid_argument) {
    case ErrorCode::mismatch:
    case ErrorCode::timeout:
    case ErrorCode::aborted:
    case ErrorCode::rank_lost:
    case ErrorCode::bootstrap:
      return;
    default:
      break;
  }
  if (own_.watchdog->is_broken()) return;
  publisher_.publish_refused(numbers, why.what());
  if (own_.other_nodes) own_.other_nodes->tell();
}

bool CallPath::is_capturing(NativeStream stream) {
  const DeviceScope device(*own_.backend);
  return own_.backend->is_capturing(stream);
}

void CallPath::plan_steps(GroupPlan& plan) {
  plan_group(
      plan.calls, [this](const Call& all) { return preparer_.choose_batch(all); }, plan.steps);
}

/// Another thread may have detached a window since a call on it came into the group.
void CallPath::check_attached(std::span<const GroupedCall> calls) const {
  for (const GroupedCall& call : calls)
    call.call.for_each_window([&](const auto& window) {
      if (window->is_attached() && !own_.heap.owns(*window))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("group: rank {}: the memory at {} was detached before the end",
                                rank(), static_cast<const void*>(window->local())));
    });
}

GroupPlan CallPath::plan(std::vector<GroupedCall>&& calls, std::string_view what) {
  faults_.throw_if_broken();
  check_own_messages(calls, rank(), what);
  if (what == any_group) check_attached(calls);
  const bool one_stream = std::all_of(calls.begin(), calls.end(), [&](const GroupedCall& call) {
    return call.stream == calls.front().stream;
  });
  if (!one_stream && !own_.backend->captures_spread() && is_capturing(calls.front().stream))
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "group: calls of one communicator are captured on several streams, which {} can't join",
            name_of(own_.backend->info().backend)));
  GroupPlan plan{.calls = std::move(calls), .steps = {}, .is_group = what == any_group};
  plan_steps(plan);
  return plan;
}

void CallPath::enqueue(GroupPlan& plan) {
  faults_.must_enqueue([&] {
    publish(plan);
    faults_.check_refusals();
    if (plan.steps.empty()) return;  // all calls are empty messages
    const DeviceScope device(*own_.backend);
    make_room(plan);
    launcher_->launch(plan);
    if (plan.is_group) ++groups_;
  });
}

void CallPath::submit(GroupPlan& plan, const LearnedCall& learned) {
  if (learned.known == nullptr) return enqueue(plan);
  learned.known->launch.clear();
  plan.record = &learned.known->launch;
  enqueue(plan);
  keep(*learned.known, *learned.request, plan);
}

bool CallPath::launch_again(const KnownCall& known, NativeStream stream, bool waits) {
  bool has_ended = false;
  faults_.must_enqueue([&] {
    const std::uint64_t number = publisher_.publish(known.announcements, known.first);
    faults_.check_refusals();
    const DeviceScope device(*own_.backend);
    const NativeStream resolved = own_.backend->resolve(stream);
    has_ended = waits && launcher_->launch_and_wait(known, number, resolved);
    if (!has_ended) launcher_->launch(known, number, resolved);
    ++repeated_;
  });
  if (!has_ended) return false;
  own_.watchdog->compare_now_and_then();
  faults_.throw_if_broken();
  return true;
}

/// Fills in the call if it can be repeated. Lack of memory is no error, because the call has been
/// enqueued. Calls of the program's own algorithms are not repeated: their `enqueue` may do more
/// than launch.
void CallPath::keep(KnownCall& known, const Request& request, const GroupPlan& plan) const noexcept
    try {
  if (plan.steps.size() != 1 || !known.launch.can_be_repeated() ||
      !Registry::instance().is_own(*plan.steps.front().algorithm)) {
    known.state = KnownCall::State::unrepeatable;
    return;
  }
  const GroupStep& step = plan.steps.front();
  known.announcements = publisher_.announcements_of(plan);
  known.first = step.calls.front();
  known.algorithm = own_.algorithms.number_of(*step.algorithm);
  known.memory.clear();
  known.attached.clear();
  for (const GroupedCall& call : plan.calls)
    call.call.for_each_window([&](const auto& window) {
      (window->is_attached() ? known.attached : known.memory).emplace_back(window);
    });
  known.keep(request, memory_state());
} catch (const std::bad_alloc&) {
  known.state = KnownCall::State::empty;
}

void CallPath::grow(const GroupPlan& plan) {
  const DeviceScope device(*own_.backend);
  faults_.must_enqueue([&] { make_room(plan); });
}

/// If the memory can't be had, all ranks hear why, because they count on the call. An error that
/// another rank met first is thrown in that rank's words.
void CallPath::make_room(const GroupPlan& plan) {
  Watchdog& watchdog = *own_.watchdog;
  try {
    launcher_->make_room(plan);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) watchdog.compare();  // its error names the calls
    std::string text = error.what();
    if (error.code() == ErrorCode::timeout && !watchdog.await_error()) {
      text += "; the communicator is broken";
      for (int rank = 0; rank < own_.board->ranks(); ++rank)
        text += "\n  " + own_.board->describe(rank, own_.algorithms.names());
    }
    watchdog.abort(error.code(), text);
    faults_.throw_told();  // not throw_if_broken, because this may be any thread
    throw;
  }
}

Statistics CallPath::statistics() const {
  Statistics statistics = launcher_->statistics();
  statistics.calls = publisher_.calls();
  statistics.groups = groups_;
  statistics.scratch_bytes = own_.memory->bytes();
  statistics.scratch_bytes_committed = own_.memory->committed();
  return statistics;
}

}  // namespace plait
