#include "communicator/calls/collective_calls.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calls/call_checks.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"

namespace plait {

/// The step of the preparation that may refuse the call.
void CollectiveCalls::look_at(PreparedCall& prepared, const Request& request,
                              NativeStream stream) const {
  const CallPreparer& preparer = path_.preparer();
  if (own_.trace) prepared.begin = std::chrono::steady_clock::now();
  preparer.describe(prepared, request);
  preparer.check(prepared, request.options, stream);
  faults_.throw_if_broken();
  if (prepared.call.count != 0) preparer.locate(prepared);
}

/// The rest of the preparation. False: the call has nothing to do.
bool CollectiveCalls::choose(PreparedCall& prepared, const CallOptions& options) {
  CallPreparer& preparer = path_.preparer();
  if (prepared.call.count == 0 && prepared.call.collective != Collective::barrier) {
    preparer.choose_nothing(prepared, options);
    return false;
  }
  prepared.call = in_words(prepared.call);
  preparer.choose(prepared, options);
  if (own_.trace) prepared.end = std::chrono::steady_clock::now();
  return true;
}

/// Fills in a new `prepared` in place, because a copy takes longer. False: as `choose`.
bool CollectiveCalls::prepare(PreparedCall& prepared, const Request& request, NativeStream stream) {
  const auto look = [&] { look_at(prepared, request, stream); };
  if (!own_.settings.check_calls) look();
  else
    path_.agree_on_call(refusal_of(look), [&] {
      check_agreement(*own_.bootstrap, prepared.call, request.options, describe_places(prepared));
    });
  return choose(prepared, request.options);
}

void CollectiveCalls::add_to(OpenGroup& group, const Request& request, NativeStream stream,
                             KnownCall* empty) {
  PreparedCall prepared;
  const auto look = [&] { look_at(prepared, request, stream); };
  if (own_.settings.check_calls) {
    const std::optional<Error> refusal = refusal_of(look);
    group.compare_at_end(path_, [this, refusal, prepared, options = request.options] {
      path_.agree_on_call(refusal, [&] {
        check_agreement(*own_.bootstrap, prepared.call, options, describe_places(prepared));
      });
    });
    if (refusal) return;
  } else {
    look();
  }
  if (choose(prepared, request.options))
    group.add_prepared(path_, prepared, stream, {empty, &request});
}

bool CollectiveCalls::call(const Request& request, StreamRef stream) {
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open()) return enqueue(request, stream);
  const bool added = group.add(path_, [&] { add_to(group, request, stream.native()); });
  // With PLAIT_CHECK=1, the comparison at the end may refuse the call.
  if (!added || own_.settings.check_calls) group.refuse(path_, RefusedNumbers::of(request.call));
  return false;
}

bool CollectiveCalls::enqueue(const Request& request, StreamRef stream) {
  const KnownCalls::Found found = path_.find_known(request);
  const auto refused = [&] { return RefusedNumbers::of(request.call); };
  if (found.known != nullptr)
    return path_.repeat(*found.known, name_of(request.call.collective), stream.native(),
                        request.options, refused);
  PlanOfOneCall plan(kept_);
  GroupedCall& only = plan->calls.emplace_back();
  const auto prepare_it = [&] { return prepare(only.call, request, stream.native()); };
  if (!path_.or_refuse(refused, prepare_it)) return false;
  only.stream = own_.backend->resolve(stream.native());
  // The only call is the only step.
  if (plan->steps.empty()) plan->steps.push_back({.algorithm = nullptr, .shape = {}, .calls = {0}});
  plan->steps.front().algorithm = only.call.algorithm;
  plan->steps.front().shape = only.call.shape;
  path_.submit(*plan, {found.empty, &request});
  return false;
}

void CollectiveCalls::add_requests(std::span<const Request> requests, StreamRef stream) {
  if (!own_.settings.check_calls) {
    for (const Request& request : requests) call(request, stream);
    return;
  }
  OpenGroup& group = OpenGroup::of_thread();
  group.add(path_, [&] {
    // First of all, because a rank that refuses the whole has none of them to compare.
    group.compare_at_end(path_, [this] { path_.agree_on_call({}, [] {}); });
    for (const Request& request : requests) add_to(group, request, stream.native());
  });
  group.refuse(path_, {.collective = !requests.empty()});
}

bool may_overlap(std::span<const Request> requests, std::optional<int> rank) {
  const auto meet = [](const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
    const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
    return b != nullptr && x < y + b_bytes && y < x + a_bytes;
  };
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& to = requests[i];
    const std::size_t received = recv_bytes(to.call);
    if (!has(facts_of(to.call.collective).recv, to.call, rank.value_or(static_cast<int>(i))))
      continue;
    for (const Request& other : requests)
      if (&other != &to && (meet(to.recv, received, other.send, send_bytes(other.call)) ||
                            meet(to.recv, received, other.recv, recv_bytes(other.call))))
        return true;
  }
  return false;
}

/// All calls are checked before the first one is enqueued. Known calls have passed the checks, but
/// perhaps each by itself, so those that overlap are checked again.
void CollectiveCalls::calls(std::string_view what, std::span<const Request> requests,
                            StreamRef stream) {
  if (requests.size() == 1 && !own_.settings.check_calls) {
    call(requests.front(), stream);
    return;
  }
  if (OpenGroup::of_thread().is_open() || own_.settings.check_calls)
    return in_group([&] { add_requests(requests, stream); });
  const auto check = [&] {
    std::vector<GroupedCall> prepared;
    for (const Request& request : requests)
      if (!prepare(prepared.emplace_back().call, request, stream.native())) prepared.pop_back();
    const MemberCalls alone{prepared, own_.rank(), own_.birth};
    check_disjoint({&alone, 1}, what);
  };
  const auto is_known = [&](const Request& request) { return path_.knows(request); };
  if (may_overlap(requests, own_.rank()) ||
      !std::all_of(requests.begin(), requests.end(), is_known))
    path_.or_refuse([&] { return RefusedNumbers{.collective = !requests.empty()}; }, check);
  bool has_begun = false;
  try {
    for (const Request& request : requests) {
      enqueue(request, stream);
      has_begun = true;
    }
  } catch (const std::exception& error) {  // such as no memory
    if (has_begun)
      faults_.abort(fmt::format("a part of {} could not be enqueued: {}", what, error.what()));
    throw;
  }
}

}  // namespace plait
