#include "interop/nccl/group.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/selection/selection.hpp"
#include "interop/nccl/functions.hpp"
#include "plait/group.hpp"

namespace plait::nccl {

Group& Group::of_thread() {
  thread_local Group group;
  return group;
}

void Group::start() {
  if (depth_ == 0) group_start();
  ++depth_;
}

void Group::poison(Result result) noexcept {
  if (!is_open() || failure_) return;
  try {
    failure_.emplace(Failure{result, last_sentence()});
  } catch (const std::bad_alloc&) {
    failure_.emplace(Failure{result, {}});
  }
}

void Group::add(const std::shared_ptr<Comm>& comm, const Call& call) {
  calls_.push_back({Comm::in_group(comm), call});
}

void Group::await_at_end(const std::shared_ptr<Comm>& comm) {
  if (std::find(awaited_.begin(), awaited_.end(), comm) == awaited_.end()) awaited_.push_back(comm);
}

bool Group::Places::meet(std::uintptr_t begin, std::uintptr_t end) const {
  const auto next = std::upper_bound(all_.begin(), all_.end(), begin,
                                     [](auto at, const Place& place) { return at < place.end; });
  return next != all_.end() && next->begin < end;
}

void Group::Places::add(std::uintptr_t begin, std::uintptr_t end) {
  const auto first = std::lower_bound(all_.begin(), all_.end(), begin,
                                      [](const Place& place, auto at) { return place.end < at; });
  auto last = first;
  for (; last != all_.end() && last->begin <= end; ++last) {
    begin = std::min(begin, last->begin);
    end = std::max(end, last->end);
  }
  all_.insert(all_.erase(first, last), {begin, end});
}

bool Group::use(const void* buffer, const Call& message, bool writes) {
  const std::size_t most = SIZE_MAX / 4 / size_of(message.type);  // more are refused later
  if (!is_open() || buffer == nullptr || message.count == 0 || message.count > most) return true;
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer), end = begin + message.block_bytes();
  if (written_.meet(begin, end) || (writes && read_.meet(begin, end))) return false;
  (writes ? written_ : read_).add(begin, end);
  return true;
}

void Group::clear() noexcept {
  failure_.reset();
  jobs_.clear();
  calls_.clear();
  awaited_.clear();
  after_.clear();
  read_.clear();
  written_.clear();
}

/// Drops the jobs, and the calls that Plait's group has collected.
void Group::discard(const std::function<void()>& drop_calls) noexcept {
  for (const Job& job : jobs_)
    job.drop(Error(ErrorCode::aborted, "the group that this call was in failed"));
  drop_calls();
  for (const auto& act : after_) static_cast<void>(guarded("ncclGroupEnd", [&] { act(false); }));
}

/// Enqueues the calls, and on the host waits for those on the null stream.
Result Group::enqueue() noexcept {
  Result result = guarded("ncclGroupEnd", [] { group_end(); });
  const bool enqueued = result == Result::success;
  for (const auto& act : after_) {
    const Result acted = guarded("ncclGroupEnd", [&] { act(enqueued); });
    if (result == Result::success) result = acted;
  }
  if (!enqueued) return result;
  for (const auto& comm : awaited_) {
    const Result waited = guarded("ncclGroupEnd", [&] { comm->use("ncclGroupEnd").synchronize(); });
    if (result == Result::success) result = waited;
  }
  return result;
}

Result Group::end() noexcept {
  if (depth_ == 0)
    return fail(Result::invalid_usage, "ncclGroupEnd: no group was started on this thread");
  if (--depth_ > 0) return Result::success;
  if (failure_) {
    const Failure failure = *std::exchange(failure_, std::nullopt);
    discard([&] { refuse_group(failure.sentence); });
    clear();
    return fail(failure.result, failure.sentence);
  }
  // Before the jobs, which may end communicators that have calls here.
  const Result enqueued = enqueue();
  const std::string sentence = last_sentence();
  std::vector<Job> jobs = std::move(jobs_);
  clear();
  const Result done = jobs.empty() ? Result::success : run(std::move(jobs));
  return enqueued == Result::success ? done : fail(enqueued, sentence);
}

Result Group::simulate(float& microseconds) noexcept {
  if (depth_ == 0)
    return fail(Result::invalid_usage, "ncclGroupSimulateEnd: no group was started on this thread");
  if (depth_ > 1)
    return fail(Result::invalid_usage,
                "ncclGroupSimulateEnd: only the outermost group can be simulated");
  double sum = 0;
  const Result estimated = guarded("ncclGroupSimulateEnd", [&] {
    for (const Counted& counted : calls_) {
      const Communicator& own = counted.comm->use("ncclGroupSimulateEnd");
      const Selector& selector = selector_of(own);
      Call call = counted.call;
      if (call.count == 0) continue;
      call.parts = parts_of(call.collective, own.size());
      const double estimate =
          Selector::estimate(*selector.choose(call, {}).algorithm, call, selector.topology());
      if (std::isfinite(estimate)) sum += estimate;
    }
  });
  microseconds = static_cast<float>(sum);
  depth_ = 0;
  const auto failure = std::exchange(failure_, std::nullopt);
  discard([] { cancel_group(); });
  clear();
  return failure ? fail(failure->result, failure->sentence) : estimated;
}

Result run_or_add(Job job) noexcept {
  Group& group = Group::of_thread();
  const char* const call = job.call;
  if (group.is_open()) return grouped(call, [&] { group.add(std::move(job)); });
  std::vector<Job> alone;
  const Result kept = guarded(call, [&] { alone.push_back(std::move(job)); });
  return kept == Result::success ? run(std::move(alone)) : kept;
}

}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclGroupStart() {
  return guarded("ncclGroupStart", [] { Group::of_thread().start(); });
}
Result plait::nccl::ncclGroupEnd() { return Group::of_thread().end(); }

Result plait::nccl::ncclGroupSimulateEnd(Simulation* simulation) {
  constexpr const char* call = "ncclGroupSimulateEnd";
  const bool given = simulation != nullptr && simulation->magic == magic_of_simulation;
  float microseconds = 0;
  // The group ends in any case.
  const Result ended = Group::of_thread().simulate(microseconds);
  if (simulation != nullptr && !given)
    return fail(Result::invalid_argument,
                fmt::format("{}: the ncclSimInfo_t was not initialised", call));
  if (given && ended == Result::success) simulation->estimated_time = microseconds;
  return ended;
}
