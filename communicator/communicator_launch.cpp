// From prepared calls to launches: a call by itself, and the calls of a group.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "communicator/communicator_state.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/observe/call_number.hpp"

namespace plait {

/// What is numbered and published must also be enqueued: else the other ranks would take this
/// rank's next call for it. So the communicator breaks if `body` throws.
template <class Body>
void CommunicatorState::must_enqueue(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    abort(fmt::format("a call could not be enqueued: {}", error.what()));
    throw;
  }
}

/// The memory of an algorithm for a launch, whose call has been published. Where it can't be had,
/// all ranks hear why: they count on the call. An error that was a peer's first is thrown as that
/// peer put it.
const AlgorithmGrant& CommunicatorState::memory_of(std::size_t number, unsigned blocks) {
  try {
    return memory_->of(number, blocks);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) compare();  // which knows the calls
    std::string text = error.what();
    if (error.code() == ErrorCode::timeout && !watchdog_->await_error()) {
      text += "; the communicator is broken";
      for (int rank = 0; rank < board_->ranks(); ++rank)
        text += "\n  " + board_->describe(rank, names(algorithms_));
    }
    watchdog_->abort(error.code(), text);
    if (auto broken = tell_error())
      throw *std::move(broken);  // by any thread, so nothing else is told of it
    throw;
  }
}

void CommunicatorState::enqueue(const PreparedCall& prepared, NativeStream stream) {
  const std::size_t number = number_of(*prepared.algorithm);
  ++statistics_.calls;
  board_->publish(++collectives_,
                  Signature::of(prepared.call, number, prepared.shape, prepared.place));
  must_enqueue([&] { launch(prepared, number, backend->resolve(stream)); });
}

void CommunicatorState::launch(const PreparedCall& prepared, std::size_t number,
                               NativeStream stream) {
  const Call& call = prepared.call;
  const Watch watch = this->watch(collectives_, number);
  const DeviceScope device(*backend);
  static constexpr AlgorithmGrant none;
  const AlgorithmGrant& memory =
      prepared.done_already ? none : memory_of(number, prepared.shape.blocks);
  const bool captured = order_.enter(stream);
  const LaunchSetting setting{*backend,         kernels_, selector.topology(), bootstrap->rank(),
                              origin.process(), *work_,   statistics_};
  LaunchContext context(setting, stream, captured, sides_->of(captured), memory, watch);
  if (!prepared.done_already)
    prepared.algorithm->enqueue(call, prepared.buffers, prepared.shape, context);
  order_.leave(stream);
  if (trace_)
    trace_->add({.number = collectives_,
                 .begin = prepared.begin,
                 .end = std::chrono::steady_clock::now(),
                 .call = call,
                 .algorithm = static_cast<std::uint32_t>(number),
                 .shape = prepared.shape,
                 .captured = captured});
}

bool CommunicatorState::is_capturing(NativeStream stream) {
  const DeviceScope device(*backend);
  return backend->is_capturing(stream);
}

void CommunicatorState::plan_steps(std::span<const GroupedCall> calls,
                                   std::vector<GroupStep>& steps) {
  plan_group(
      calls, [this](const Call& all) { return known(all).in_batch; }, steps);
}

GroupPlan CommunicatorState::plan(std::vector<GroupedCall> calls) {
  throw_if_broken();
  check_own_messages(calls, rank());
  const bool one_stream = std::all_of(calls.begin(), calls.end(), [&](const GroupedCall& call) {
    return call.stream == calls.front().stream;
  });
  if (!one_stream && !backend->captures_spread() && is_capturing(calls.front().stream))
    throw Error(
        ErrorCode::unsupported,
        fmt::format(
            "group: calls of one communicator are captured on several streams, which {} can't join",
            name_of(backend->info().backend)));
  GroupPlan plan{std::move(calls), {}};
  plan_steps(plan.calls, plan.steps);
  return plan;
}

/// Numbered as they were made. That a call shares launches, and with how many, must be the same on
/// all ranks, too; of messages, only what both ends know: and that one is empty, as the other end
/// may not be.
void CommunicatorState::publish(const std::vector<GroupedCall>& calls,
                                const std::vector<GroupStep>& steps) {
  signatures_.resize(calls.size());
  for (const GroupStep& step : steps) {
    const std::size_t company = step.calls.size();
    for (const std::size_t i : step.calls) {
      const PreparedCall& call = calls[i].call;
      const bool message = call.is_message(), alone = message || company == 1;
      const Algorithm& algorithm = message ? *call.algorithm : *step.algorithm;
      Signature signature = Signature::of(call.call, number_of(algorithm),
                                          alone ? call.shape : LaunchShape{}, call.place);
      if (!alone) signature.options += company - 1;
      signatures_[i] = signature;
    }
  }
  numbers_.resize(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PreparedCall& call = calls[i].call;
    if (call.is_empty_message()) {
      board_->publish_message(call.buffers.peer, call.sends,
                              Signature::of(call.call, Signature::no_algorithm, {}));
    } else if (call.is_message()) {
      numbers_[i] = message_bit | ++messages_;
      if (call.buffers.peer != bootstrap->rank())
        board_->publish_message(call.buffers.peer, call.sends, signatures_[i]);
    } else {
      numbers_[i] = ++collectives_;
      board_->publish(collectives_, signatures_[i]);
    }
  }
  std::size_t last = 0;
  for (const GroupedCall& part : calls)
    if (!part.call.is_empty_message())
      statistics_.calls += std::exchange(last, part.number) != part.number ? 1 : 0;
}

void CommunicatorState::publish(GroupPlan& plan) {
  if (!std::exchange(plan.is_published, true)) publish(plan.calls, plan.steps);
}

void CommunicatorState::enqueue(GroupPlan& plan) {
  issue(plan);
  if (!plan.steps.empty()) ++statistics_.groups;
}

void CommunicatorState::issue(GroupPlan& plan) {
  publish(plan);
  if (plan.steps.empty()) return;  // empty messages alone
  must_enqueue([&] { launch(plan.calls, plan.steps); });
}

bool CommunicatorState::grows(const GroupPlan& plan) const {
  return std::any_of(plan.steps.begin(), plan.steps.end(), [this](const GroupStep& step) {
    return !memory_->has_all_of(number_of(*step.algorithm));
  });
}

void CommunicatorState::grow(const GroupPlan& plan) {
  const DeviceScope device(*backend);
  must_enqueue([&] { make_room(plan.calls, plan.steps); });
}

void CommunicatorState::make_room(const std::vector<GroupedCall>& calls,
                                  const std::vector<GroupStep>& steps) {
  for (const GroupStep& step : steps)
    static_cast<void>(memory_of(number_of(*step.algorithm), blocks_of(step, calls)));
}

/// Of a launch for several calls the algorithm decides, and takes the target's number where no call
/// has a wish.
unsigned CommunicatorState::blocks_of(const GroupStep& step,
                                      const std::vector<GroupedCall>& calls) const {
  unsigned blocks = std::max(step.shape.blocks, selector.topology().units);
  for (const std::size_t i : step.calls) blocks = std::max(blocks, calls[i].call.shape.blocks);
  return blocks;
}

/// All on the stream of the first call, which waits for the others; they wait for all.
void CommunicatorState::launch(const std::vector<GroupedCall>& calls,
                               const std::vector<GroupStep>& steps) {
  const DeviceScope device(*backend);
  make_room(calls, steps);
  const NativeStream stream = calls.front().stream;
  std::vector<NativeStream> others;
  for (const GroupedCall& call : calls)
    if (call.stream != stream &&
        std::find(others.begin(), others.end(), call.stream) == others.end())
      others.push_back(call.stream);
  const bool captured = order_.enter(stream);
  captures_ = captures_ || captured;
  for (const NativeStream other : others) {
    joined_->record(other);
    joined_->wait_in(stream);
  }
  const LaunchSetting setting{*backend,         kernels_, selector.topology(), bootstrap->rank(),
                              origin.process(), *work_,   statistics_};
  for (const GroupStep& step : steps) {
    const std::size_t number = number_of(*step.algorithm);
    const Watch watch = this->watch(numbers_[step.calls.front()], number);
    LaunchContext context(setting, stream, captured, sides_->of(captured), memory_->granted(number),
                          watch);
    const PreparedCall& call = calls[step.calls.front()].call;
    if (step.calls.size() == 1 && !call.is_message()) {
      if (!call.done_already) step.algorithm->enqueue(call.call, call.buffers, step.shape, context);
      continue;
    }
    batch_.clear();
    std::size_t together = 0, last = 0;
    for (const std::size_t i : step.calls) {
      batch_.push_back({&calls[i].call.call, &calls[i].call.buffers, calls[i].call.algorithm,
                        calls[i].call.shape});
      together += std::exchange(last, calls[i].number) != calls[i].number ? 1 : 0;
    }
    step.algorithm->enqueue_batch(batch_, context);
    if (together > 1) statistics_.batched += together;
  }
  for (const NativeStream other : others) {
    joined_->record(stream);
    joined_->wait_in(other);
  }
  order_.leave(stream);
  if (trace_) trace(calls, steps, captured);
}

/// Of a group's calls, the time in which each was prepared; in the order of their numbers.
void CommunicatorState::trace(const std::vector<GroupedCall>& calls,
                              const std::vector<GroupStep>& steps, bool captured) {
  std::vector<const GroupStep*> step_of(calls.size());
  for (const GroupStep& step : steps)
    for (const std::size_t i : step.calls) step_of[i] = &step;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const PreparedCall& call = calls[i].call;
    if (call.is_empty_message()) continue;
    const bool message = call.is_message();  // it has its own way in a launch that it shares
    trace_->add({.number = numbers_[i],
                 .begin = call.begin,
                 .end = call.end,
                 .call = call.call,
                 .algorithm = static_cast<std::uint32_t>(
                     number_of(message ? *call.algorithm : *step_of[i]->algorithm)),
                 .shape = message ? call.shape : step_of[i]->shape,
                 .captured = captured});
  }
}

}  // namespace plait
