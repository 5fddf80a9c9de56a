#include "communicator/messages/message_calls.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calls/call_checks.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/text.hpp"

namespace plait {
namespace {

/// The numbers on which the peers of these messages count.
RefusedNumbers refused_numbers_of(std::span<const MessageEnd> ends) {
  RefusedNumbers numbers;
  for (const MessageEnd& end : ends)
    if (end.count != 0 || end.always) numbers.add({.peer = end.peer, .sends = end.sends});
  return numbers;
}

}  // namespace

/// Fills in a new `prepared` for one end. PLAIT_CHECK=1 compares nothing here, because a rank may
/// make such a call when no other rank makes one. False: the end has nothing to do.
bool MessageCalls::prepare_end(PreparedCall& prepared, std::string_view what,
                               const Request& request, const MessageEnd& end) {
  CallPreparer& preparer = path_.preparer();
  if (end.peer == proc_null) return false;
  if (own_.trace) prepared.begin = std::chrono::steady_clock::now();
  preparer.describe_end(prepared, request.call.type, end);
  if (end.count == 0) {
    preparer.choose_nothing(prepared, request.options);
    return end.always && end.peer != own_.rank();
  }
  preparer.locate_end(prepared, what, end, request.options);
  prepared.call = in_words(prepared.call);
  preparer.choose(prepared, request.options);
  if (own_.trace) prepared.end = std::chrono::steady_clock::now();
  return true;
}

void MessageCalls::prepare(Calls& calls, std::string_view what, const Request& request,
                           NativeStream stream) {
  path_.preparer().check_ends(what, request, stream);
  faults_.throw_if_broken();
  const NativeStream resolved = own_.backend->resolve(stream);
  for (const MessageEnd& end : request.ends) {
    calls.emplace_back().stream = resolved;
    if (!prepare_end(calls.back().call, what, request, end)) calls.pop_back();
  }
}

void MessageCalls::check_among_themselves(const Calls& calls, std::string_view what) const {
  const MemberCalls alone{calls, own_.rank(), own_.birth};
  check_disjoint({&alone, 1}, what);
  check_own_messages(calls, own_.rank(), what);
}

void MessageCalls::add_to(OpenGroup& group, std::string_view what, const Request& request,
                          NativeStream stream) {
  Calls calls;
  prepare(calls, what, request, stream);
  for (const GroupedCall& end : calls) group.add_prepared(path_, end.call, stream);
}

bool MessageCalls::call(std::string_view what, const Request& request, StreamRef stream,
                        const CallByAll* by_all) {
  const bool together = by_all != nullptr && own_.settings.check_calls;
  const auto refused = [&] {
    return by_all != nullptr ? RefusedNumbers::of_all_messages() : refused_numbers_of(request.ends);
  };
  Calls calls;
  const auto look = [&] {
    prepare(calls, what, request, stream.native());
    check_among_themselves(calls, what);
  };
  // For PLAIT_CHECK=1. It has copies, because in a group it runs at the end, when the arguments are
  // gone.
  const auto compare = [&] {
    std::optional<Error> refusal = refusal_of(look);
    if (refusal) calls.clear();
    return [this, refusal = std::move(refusal), what = std::string(what), type = request.call.type,
            root = by_all->root, options = request.options] {
      path_.agree_on_call(refusal, [&] {
        check_agreement(*own_.bootstrap,
                        fmt::format("{} of {} elements{}, algorithm {}, {} x {} threads", what,
                                    name_of(type), root ? fmt::format(", root {}", *root) : "",
                                    in_quotes(options.algorithm), options.blocks, options.threads));
      });
    };
  };
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open()) {
    if (together) path_.or_refuse(refused, compare());
    return enqueue(what, request, stream, refused);
  }
  const auto add = [&] {
    if (!together) return add_to(group, what, request, stream.native());
    group.compare_at_end(path_, compare());
    for (const GroupedCall& end : calls) group.add_prepared(path_, end.call, stream.native());
  };
  const bool added = together ? group.add(path_, add) : group.add(add);
  if (!added || by_all != nullptr) group.refuse(path_, refused());
  return false;
}

template <class Refused>
bool MessageCalls::enqueue(std::string_view what, const Request& request, StreamRef stream,
                           Refused refused) {
  const KnownCalls::Found found = path_.find_known(request);
  if (found.known != nullptr)
    return path_.repeat(*found.known, what, stream.native(), request.options, refused);
  PlanOfOneCall plan(kept_);
  path_.or_refuse(refused, [&] {
    prepare(plan->calls, what, request, stream.native());
    check_among_themselves(plan->calls, what);
    path_.plan_steps(*plan);
  });
  if (!plan->calls.empty()) path_.submit(*plan, {found.empty, &request});
  return false;
}

}  // namespace plait
