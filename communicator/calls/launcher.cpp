#include "communicator/calls/launcher.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "communicator/observe/profiler_range.hpp"

namespace plait {

CallLauncher::CallLauncher(CommunicatorResources& own, const CallPublisher& publisher,
                           std::function<void()> throw_if_broken)
    : own_(own),
      publisher_(publisher),
      profiled_(own.settings.profiler_ranges && own.backend->shows_profiler_ranges()
                    ? own.backend.get()
                    : nullptr),
      sides_(own.backend),
      events_(own.backend),
      work_(own.backend, events_, own.settings.work_fifo_bytes, std::move(throw_if_broken)),
      joined_(own.backend->create_event(false)) {}

namespace {

bool uses_attached(const GroupStep& step, const GroupPlan& plan) {
  bool uses = false;
  for (const std::size_t i : step.calls)
    plan.calls[i].call.for_each_window(
        [&](const auto& window) { uses = uses || window->is_attached(); });
  return uses;
}

/// Only a call by itself can be done already.
bool needs_launch(const GroupStep& step, const GroupPlan& plan) {
  return step.calls.size() > 1 || !plan.calls[step.calls.front()].call.done_already;
}

}  // namespace

bool CallLauncher::has_room(const GroupPlan& plan) const {
  return std::all_of(plan.steps.begin(), plan.steps.end(), [&](const GroupStep& step) {
    return !needs_launch(step, plan) ||
           own_.memory->has_all_of(own_.algorithms.number_of(*step.algorithm));
  });
}

/// A collective by itself has its own shape. If a launch serves several calls, or messages, the
/// algorithm chooses the blocks, and takes the target's number where no call wishes for another.
inline unsigned CallLauncher::blocks_of(const GroupStep& step, const GroupPlan& plan) const {
  if (step.calls.size() == 1 && !plan.calls[step.calls.front()].call.is_message())
    return step.shape.blocks;
  unsigned blocks = std::max(step.shape.blocks, own_.selector.topology().units);
  for (const std::size_t i : step.calls) blocks = std::max(blocks, plan.calls[i].call.shape.blocks);
  return blocks;
}

void CallLauncher::make_room(const GroupPlan& plan) {
  for (const GroupStep& step : plan.steps)
    if (needs_launch(step, plan))
      static_cast<void>(
          own_.memory->of(own_.algorithms.number_of(*step.algorithm), blocks_of(step, plan)));
}

void CallLauncher::join_before(const GroupPlan& plan, NativeStream stream) {
  others_.clear();
  for (const GroupedCall& call : plan.calls)
    if (call.stream != stream &&
        std::find(others_.begin(), others_.end(), call.stream) == others_.end())
      others_.push_back(call.stream);
  for (const NativeStream other : others_) {
    joined_->record(other);
    joined_->wait_in(stream);
  }
}

void CallLauncher::join_after(NativeStream stream) {
  for (const NativeStream other : others_) {
    joined_->record(stream);
    joined_->wait_in(other);
  }
}

void CallLauncher::launch(const GroupPlan& plan) {
  const NativeStream stream = plan.calls.front().stream;
  const bool captured = own_.order->enter(stream), several = plan.calls.size() > 1;
  if (several) join_before(plan, stream);
  if (captured)
    for (const GroupedCall& call : plan.calls)
      call.call.for_each_window([](const auto& window) { window->note_capture(); });
  for (const GroupStep& step : plan.steps)
    if (needs_launch(step, plan)) {
      const ProfilerRange range(profiled_, [&]() -> ServedCalls {
        const Call& call = plan.calls[step.calls.front()].call.call;
        return {call.collective, call.type, call.count, step.calls.size() - 1,
                step.algorithm->name()};
      });
      run(step, plan, stream, captured);
    }
  if (own_.other_nodes) own_.other_nodes->channels().launched(captured);
  if (several) join_after(stream);
  own_.order->leave(stream);
  if (own_.trace) add_to_trace(plan, captured);
}

void CallLauncher::launch(const KnownCall& call, std::uint64_t number, NativeStream stream) {
  const bool captured = own_.order->enter(stream),
             is_message = call.announcements.front().kind != CallPublisher::Kind::collective;
  captures_messages_ = captures_messages_ || (captured && is_message);
  for (const auto& attached : call.attached)
    if (const auto window = attached.lock(); window && captured) window->note_capture();
  const LaunchRecord& launch = call.launch;
  const ProfilerRange range(profiled_, [&]() -> ServedCalls {
    const Signature& first = call.announcements[call.first].signature;
    const auto served = std::count_if(
        call.announcements.begin(), call.announcements.end(),
        [](const auto& one) { return one.kind != CallPublisher::Kind::empty_message; });
    return {first.collective(), first.type(), first.count, static_cast<std::size_t>(served) - 1,
            own_.algorithms.all()[call.algorithm]->name()};
  });
  own_.backend->launch(launch.kernel(), launch.shape(), launch.args().data(), launch.args().size(),
                       watch(number, call.algorithm), stream);
  ++statistics_.launches;
  if (launch.items() != 0) work_.repeat(launch.items());
  own_.order->leave(stream);
}

bool CallLauncher::launch_and_wait(const KnownCall& call, std::uint64_t number,
                                   NativeStream stream) {
  const LaunchRecord& launch = call.launch;
  if (profiled_ != nullptr || launch.items() != 0 || !own_.order->is_clear()) return false;
  const bool launched =
      own_.backend->launch_and_wait(launch.kernel(), launch.shape(), launch.args().data(),
                                    launch.args().size(), watch(number, call.algorithm), stream);
  if (launched) ++statistics_.launches;
  return launched;
}

/// The words in which kernels of this call report, and see an abort.
inline Watch CallLauncher::watch(std::uint64_t number, std::size_t algorithm) const {
  Watch watch = own_.watchdog->watch(number, static_cast<std::uint32_t>(algorithm));
  if (own_.log) own_.log->put_into(watch);
  if (own_.other_nodes) own_.other_nodes->channels().put_into(watch);
  return watch;
}

void CallLauncher::run(const GroupStep& step, const GroupPlan& plan, NativeStream stream,
                       bool captured) {
  const PreparedCall& first = plan.calls[step.calls.front()].call;
  const bool alone = step.calls.size() == 1 && !first.is_message();
  const std::size_t number = own_.algorithms.number_of(*step.algorithm);
  const Watch watch = this->watch(publisher_.number_of(step.calls.front()), number);
  const LaunchSetting setting{*own_.backend,
                              kernels_,
                              own_.selector.topology(),
                              own_.rank(),
                              own_.origin.process(),
                              work_,
                              statistics_,
                              own_.other_nodes ? &own_.other_nodes->channels().setting() : nullptr,
                              own_.memory->ranks_in_order(),
                              plan.record,
                              uses_attached(step, plan)};
  LaunchContext context(setting, stream, captured, sides_.of(captured),
                        own_.memory->granted(number), watch);
  if (alone) return step.algorithm->enqueue(first.call, first.buffers, step.shape, context);
  captures_messages_ = captures_messages_ || (captured && first.is_message());
  batch_.clear();
  std::size_t together = 0, last = 0;
  for (const std::size_t i : step.calls) {
    const GroupedCall& grouped = plan.calls[i];
    const PreparedCall& call = grouped.call;
    batch_.push_back({&call.call, &call.buffers, call.algorithm, call.shape});
    if (std::exchange(last, grouped.number) != grouped.number) ++together;
  }
  step.algorithm->enqueue_batch(batch_, context);
  if (together > 1) statistics_.batched += together;
}

/// Adds the calls in the order of their numbers. A collective outside a group ends now.
/// Any other call shares its launches, so its entry has only the time in which it was prepared.
void CallLauncher::add_to_trace(const GroupPlan& plan, bool captured) {
  const auto now = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < plan.calls.size(); ++i) {
    const PreparedCall& call = plan.calls[i].call;
    if (call.is_empty_message()) continue;
    // A message keeps its algorithm and shape in a launch that it shares.
    const GroupStep& step = plan.steps[plan.calls[i].step];
    const bool message = call.is_message();
    const Algorithm& algorithm = message ? *call.algorithm : *step.algorithm;
    own_.trace->add({.number = publisher_.number_of(i),
                     .begin = call.begin,
                     .end = plan.is_group || message ? call.end : now,
                     .call = call.call,
                     .algorithm = static_cast<std::uint32_t>(own_.algorithms.number_of(algorithm)),
                     .shape = message ? call.shape : step.shape,
                     .captured = captured});
  }
}

Statistics CallLauncher::statistics() const {
  Statistics statistics = work_.statistics();
  statistics.launches = statistics_.launches;
  statistics.batched = statistics_.batched;
  return statistics;
}

}  // namespace plait
