#include "communicator/communicator_state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <new>
#include <numeric>
#include <thread>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/bootstrap_hooks.hpp"
#include "communicator/check.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/log.hpp"

namespace plait {

std::optional<std::string> name_part(const std::vector<int>& parent_ranks) {
  std::vector<int> own(parent_ranks.size());
  std::iota(own.begin(), own.end(), 0);
  if (own == parent_ranks) return std::nullopt;
  return fmt::format("the part of ranks {} (its ranks {})", fmt::join(parent_ranks, ", "),
                     fmt::join(own, ", "));
}

namespace {

/// Whether a kernel has started and not ended, as far as is known.
bool runs(const std::shared_ptr<BlockLog>& log) {
  if (log == nullptr) return false;
  try {
    const Progress progress = log->read();
    return progress.started != progress.completed;
  } catch (const Error&) {  // a lost device
    return false;
  }
}

}  // namespace

CommunicatorState::CommunicatorState(std::unique_ptr<Bootstrap> b,
                                     const CommunicatorOptions& options,
                                     const CommunicatorState* parent, HostDevices host)
    : bootstrap(interruptible(std::move(b), parent)),
      creating_(std::in_place, *bootstrap, "creating a communicator"),
      made_with(options),
      settings(agree_on_settings(*bootstrap, options)),
      nodes(*bootstrap),
      backend(open_device(*bootstrap, nodes, options, settings,
                          parent != nullptr ? parent->backend.get() : nullptr, host)),
      counted(*backend),
      heap(backend, *bootstrap, nodes.are_several() ? &nodes : nullptr),
      birth_(agree_on_birth(*bootstrap)),
      selector(make_selector(discover_topology(*bootstrap, nodes, *backend, settings))),
      board_(std::make_shared<Board>(*bootstrap, nodes)),
      in_calls_(board_->desks(), bootstrap->rank()),
      preparer_(*bootstrap, *backend, heap, selector),
      publisher_(*board_, bootstrap->rank(), algorithms_),
      host_reducer_(*this) {
  agree(*bootstrap, "loading kernels", [&] { backend->load_kernels(); });
  memory_ = std::make_unique<AlgorithmMemory>(backend, *bootstrap, nodes, in_calls_, heap,
                                              selector.topology(), algorithms_.all());
  if (nodes.are_several()) {
    auto channels = std::make_unique<NodeChannels>(backend, *bootstrap, nodes, selector.topology(),
                                                   settings.network, memory_->channels(), heap);
    selector.set_network(channels->network());
    other_nodes_ =
        std::make_unique<OtherNodes>(std::move(channels), nodes, *board_, bootstrap->rank());
  }
  const int ranks_per_gpu =
      selector.topology().backend == BackendKind::host ? 1 : selector.topology().ranks_per_device;
  agree(*bootstrap, "creating the watchdog, work memory, streams and threads", [&] {
    watchdog_ = std::make_shared<Watchdog>(backend, board_, algorithms_.names(), memory_->claimed(),
                                           settings.timeout, bootstrap->rank(), ranks_per_gpu,
                                           nodes.are_several());
    start_log(parent != nullptr ? parent->trace_file() : nullptr);
    watchdog_->introduce(parent == nullptr
                             ? "the one of all ranks"
                             : name_part(bootstrap->parent_ranks()).value_or("a duplicate"),
                         [log = std::weak_ptr(log_)] { return runs(log.lock()); });
    launcher_.emplace(
        CallLauncher::Parts{.backend = backend,
                            .topology = selector.topology(),
                            .rank = bootstrap->rank(),
                            .process = origin.process(),
                            .algorithms = algorithms_,
                            .publisher = publisher_,
                            .memory = *memory_,
                            .nodes = other_nodes_ ? &other_nodes_->channels() : nullptr,
                            .watchdog = *watchdog_,
                            .log = log_.get(),
                            .trace = trace_.get()},
        settings.work_fifo_bytes, [this] { throw_if_broken(); });
    if (other_nodes_) other_nodes_->start(*watchdog_);
    if (bootstrap->size() > 1)
      monitored_.emplace(
          [this] {
            watchdog_->look();
            if (other_nodes_) other_nodes_->tell();
          },
          LastWords{.announce = [this] { announce_end(); },
                    .await =
                        [this](auto until) {
                          if (other_nodes_ && !watchdog_->is_broken())
                            other_nodes_->tell_last(until - std::chrono::steady_clock::now());
                        }});
  });
  for_each_group([this](Bootstrap& group) {
    BootstrapHooks::set_interrupt(group, [this] { look_and_throw(); });
  });
  in_calls_.set_timeout(settings.timeout);
  BootstrapHooks::set_interrupt(in_calls_, [this] {
    watchdog_->look();
    if (auto broken = tell_error()) throw *std::move(broken);
  });
  BootstrapHooks::set_farewell(*bootstrap, [this] { board_->announce(Board::State::ending); });
  remember_device(*backend);
  creating_.reset();
}

std::string CommunicatorState::describe_nodes() const {
  return other_nodes_ == nullptr ? std::string() : other_nodes_->describe(selector.topology());
}

Selector CommunicatorState::make_selector(const Topology& topology) const {
  return {topology, algorithms_.all(), bootstrap->rank(),
          settings.tuning ? tuning_rules(*settings.tuning, topology) : RuleList(),
          settings.reproducible};
}

std::unique_ptr<Bootstrap> CommunicatorState::interruptible(std::unique_ptr<Bootstrap> bootstrap,
                                                            const CommunicatorState* parent) {
  if (parent != nullptr)
    BootstrapHooks::set_interrupt(*bootstrap, [parent] { parent->look_and_throw(); });
  return bootstrap;
}

/// Looks at once, because the monitor looks only every `monitor_period`.
void CommunicatorState::look_and_throw() const {
  watchdog_->look();
  throw_if_broken();
}

void CommunicatorState::throw_broken() const {
  auto broken = tell_error();
  if (!broken) return;
  if (other_nodes_) other_nodes_->tell_last(std::chrono::milliseconds(100));
  abandon(*broken);
  throw *std::move(broken);
}

void CommunicatorState::abandon(const Error& error) const {
  bool lost = error.code() == ErrorCode::timeout, has_left = false;
  // A rank that has only left the communicator still takes part in what the job does at its end. If
  // none has, one has ended, also if this rank only heard of it.
  for (int rank = 0; rank < bootstrap->size(); ++rank) {
    lost = lost || (error.code() == ErrorCode::rank_lost && !board_->is_alive(rank));
    has_left = has_left || !board_->departure(rank).empty();
  }
  lost = lost || (error.code() == ErrorCode::rank_lost && !has_left);
  BootstrapHooks::abandon(*bootstrap, error.what(), lost);
}

void CommunicatorState::start_log(std::shared_ptr<TraceFile> trace) {
  if (settings.trace && !trace)
    trace = TraceFile::open(*settings.trace, bootstrap->rank(), bootstrap->size());
  if (settings.progress) log_ = std::make_shared<BlockLog>(backend, trace != nullptr);
  if (!trace) return;
  const DeviceInfo& device = backend->info();
  trace_ = std::make_unique<Trace>(
      std::move(trace), *log_,
      fmt::format("rank {} of {}, {} device {}", bootstrap->rank(), bootstrap->size(),
                  name_of(device.backend), device.ordinal),
      algorithms_.names(), device.backend == BackendKind::host);
}

/// The process leaves, and the communicator is still there. If its work has ended, the other ranks
/// need this one for none of their calls so far.
void CommunicatorState::announce_end() noexcept {
  if (!watchdog_->is_broken() && launcher_->order().is_idle())
    board_->announce(Board::State::ending);
  if (other_nodes_) other_nodes_->tell();
}

/// Waits for all enqueued work. The monitor still looks, so a kernel that waits for a peer ends if
/// that peer has aborted or is lost.
void CommunicatorState::finish() noexcept {
  launcher_->drain();
  try {
    const DeviceScope device(*backend);
    backend->synchronize_device();
  } catch (const std::exception&) {  // a lost device runs nothing
  }
}

CommunicatorState::~CommunicatorState() {
  if (const std::size_t calls = OpenGroup::of_thread().forget(*this); calls != 0)
    log::warn(
        "rank {}: a communicator is destroyed with calls in a group that has not ended: {} of "
        "them, never enqueued",
        bootstrap->rank(), calls);
  finish();
  monitored_.reset();
  // The monitor may not have seen a loss yet, and the bootstrap must not wait for a lost rank.
  watchdog_->look();
  warn_of_left_over();
  board_->announce(Board::State::left);
  if (other_nodes_) other_nodes_->tell();
  for_each_group([](Bootstrap& group) { BootstrapHooks::set_interrupt(group, {}); });
  BootstrapHooks::set_farewell(*bootstrap, {});
  const auto broken = watchdog_->await_error();
  if (!broken) return;
  if (other_nodes_) other_nodes_->channels().hurry();
  if (!watchdog_->was_told()) log::error("{}", broken->what());
  abandon(*broken);
}

/// Warns of messages that can't be received any more. Graphs may have received some of them, which
/// is not known, so there is no warning once a message was captured.
void CommunicatorState::warn_of_left_over() const {
  if (watchdog_->await_error() || launcher_->captures_messages()) return;
  if (const std::string left = board_->left_over(); !left.empty())
    log::warn(
        "rank {}: a communicator is destroyed with messages that this rank has not received: {}",
        bootstrap->rank(), left);
}

void CommunicatorState::abort(std::string_view reason) {
  const int rank = bootstrap->rank();
  watchdog_->abort(ErrorCode::aborted,
                   reason.empty()
                       ? fmt::format("rank {} has aborted the communicator", rank)
                       : fmt::format("rank {} has aborted the communicator: {}", rank, reason));
}

std::string CommunicatorState::places(const PreparedCall& prepared) const {
  return preparer_.describe_places(prepared);
}

std::optional<PreparedCall> CommunicatorState::prepare(const Call& call, const void* send,
                                                       void* recv, NativeStream stream,
                                                       const CallOptions& options) {
  std::optional<PreparedCall> prepared(std::in_place);
  if (!prepare_in(*prepared, call, send, recv, stream, options)) prepared.reset();
  return prepared;
}

namespace {

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

}  // namespace

/// PLAIT_CHECK=1: throws on all ranks if one refuses the call. Else `compare` compares it.
template <class Compare>
void CommunicatorState::agree_on_call(const std::optional<Error>& refusal, Compare compare) const {
  const BootstrapHooks::Purpose purpose(*bootstrap, "a collective call (PLAIT_CHECK=1)");
  agree(*bootstrap, "PLAIT_CHECK", [&] {
    throw_if_broken();
    if (refusal) throw *refusal;
  });
  compare();
}

/// Fills in a new `prepared` in place, because a copy takes longer. False: the call has nothing to
/// do.
bool CommunicatorState::prepare_in(PreparedCall& prepared, const Call& call, const void* send,
                                   void* recv, NativeStream stream, const CallOptions& options) {
  const auto look = [&] { look_at(prepared, call, send, recv, stream, options); };
  if (!settings.check_calls) look();
  else
    agree_on_call(refusal_of(look),
                  [&] { check_agreement(*bootstrap, prepared.call, options, places(prepared)); });
  return choose(prepared, options);
}

/// The part of the preparation that may refuse the call.
void CommunicatorState::look_at(PreparedCall& prepared, const Call& call, const void* send,
                                void* recv, NativeStream stream, const CallOptions& options) const {
  if (trace_) prepared.begin = std::chrono::steady_clock::now();
  preparer_.describe(prepared, call, send, recv, options);
  preparer_.check(prepared, options, stream);
  throw_if_broken();
  if (prepared.call.count != 0) preparer_.locate(prepared);
}

/// The rest of the preparation. False: as prepare_in.
bool CommunicatorState::choose(PreparedCall& prepared, const CallOptions& options) {
  if (prepared.call.count == 0 && prepared.call.collective != Collective::barrier) {
    preparer_.choose_nothing(prepared, options);
    return false;
  }
  prepared.call = in_words(prepared.call);
  preparer_.choose(prepared, options);
  if (trace_) prepared.end = std::chrono::steady_clock::now();
  return true;
}

/// Prepares a call that is being added to the group. The ranks compare it at the group's end.
void CommunicatorState::add_to(OpenGroup& group, const CallPart& part, NativeStream stream,
                               const CallOptions& options) {
  PreparedCall prepared;
  const auto look = [&] { look_at(prepared, part.call, part.send, part.recv, stream, options); };
  if (settings.check_calls) {
    const std::optional<Error> refusal = refusal_of(look);
    group.compare_at_end(*this, [this, refusal, prepared, options] {
      agree_on_call(refusal,
                    [&] { check_agreement(*bootstrap, prepared.call, options, places(prepared)); });
    });
    if (refusal) return;
  } else {
    look();
  }
  if (choose(prepared, options)) group.add_part(*this, prepared, stream);
}

/// Fills in a new `prepared` for one end of a message. PLAIT_CHECK=1 compares nothing here, because
/// a rank may make such a call when no other rank makes one. False: the call has nothing to do.
bool CommunicatorState::prepare_end(PreparedCall& prepared, std::string_view what, DataType type,
                                    const MessageEnd& end, const CallOptions& options) {
  if (end.peer == proc_null) return false;
  if (trace_) prepared.begin = std::chrono::steady_clock::now();
  preparer_.describe_end(prepared, type, end);
  if (end.count == 0) {
    preparer_.choose_nothing(prepared, options);
    return end.always && end.peer != rank();
  }
  preparer_.locate_end(prepared, what, end, options);
  prepared.call = in_words(prepared.call);
  preparer_.choose(prepared, options);
  if (trace_) prepared.end = std::chrono::steady_clock::now();
  return true;
}

/// A plan for one call outside a group, in memory that the communicator keeps. A call within a
/// call, by a user's algorithm, gets other memory. The destructor empties the plan, also if the
/// call is refused, because prepared calls hold the symmetric memory that they use.
class CommunicatorState::PlanOfOneCall {
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

namespace {

/// Makes the only call of the plan, a collective, its only step.
void plan_one_step(GroupPlan& plan) {
  const PreparedCall& only = plan.calls.front().call;
  if (plan.steps.empty()) plan.steps.push_back({.algorithm = nullptr, .shape = {}, .calls = {0}});
  plan.steps.front().algorithm = only.algorithm;
  plan.steps.front().shape = only.shape;
}

}  // namespace

/// Runs `body`, the part of a call in which it may be refused. Then it takes its numbers all the
/// same: `parts()`.
template <class Parts, class Body>
auto CommunicatorState::or_refuse(Parts parts, Body body) {
  try {
    return body();
  } catch (const std::exception& error) {
    publish_refused(parts(), error);
    throw;
  }
}

/// Only for errors of this rank: one that all ranks have ends their calls alike.
void CommunicatorState::publish_refused(const RefusedParts& parts, const std::exception& why) {
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
  if (watchdog_->is_broken()) return;
  publisher_.publish_refused(parts, why.what());
  if (other_nodes_) other_nodes_->tell();
}

/// After a refusal, before a launch: finds out whether a call that this rank has published is one
/// that another rank has refused, or the other way round. From any thread.
void CommunicatorState::check_refusals() const {
  if (!watchdog_->refusal_is_pending()) return;
  watchdog_->compare();
  if (auto broken = tell_error()) throw *std::move(broken);
}

void CommunicatorState::call(const Call& call, const void* send, void* recv, StreamRef stream,
                             const CallOptions& options) {
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open()) {
    const bool added = group.add(*this, [&] {
      add_to(group, {call, send, recv}, stream.native(), options);
    });
    // What the ranks compare at the end may be refused there.
    if (!added || settings.check_calls) group.refuse(*this, RefusedParts::of(call));
    return;
  }
  enqueue(call, send, recv, stream, options);
  if (options.blocking) synchronize(stream);
}

/// Nothing is kept where more is done for a call than to launch it: where ranks compare their
/// calls, where calls are traced or logged, and between nodes.
KnownCalls::Found CommunicatorState::find_known(const Request& request) {
  if (settings.check_calls || trace_ || other_nodes_ || preparer_.says_choices()) return {};
  return known_.find(request, {heap.allocations(), memory_->grants()});
}

bool CommunicatorState::knows(std::span<const CallPart> parts, const CallOptions& options) const {
  const MemoryState now{heap.allocations(), memory_->grants()};
  return std::all_of(parts.begin(), parts.end(), [&](const CallPart& part) {
    return known_.has({.call = part.call, .send = part.send, .recv = part.recv, .options = options},
                      now);
  });
}

template <class Refused>
void CommunicatorState::enqueue_again(const KnownCall& known, std::string_view what,
                                      NativeStream stream, const CallOptions& options,
                                      Refused refused) {
  or_refuse(refused, [&] {
    preparer_.check_stream(what, stream, options);
    throw_if_broken();
  });
  must_enqueue([&] {
    const std::uint64_t number = publisher_.publish(known.parts, known.first);
    check_refusals();
    const DeviceScope device(*backend);
    launcher_->launch(known, number, backend->resolve(stream));
  });
}

/// Fills in the call if it can be repeated, and if there is memory: the call is enqueued already.
/// The program's own algorithms are asked each time: they may do more in `enqueue` than to launch.
void CommunicatorState::keep(KnownCall& known, const Request& request,
                             const GroupPlan& plan) const noexcept try {
  known.is_vain = plan.steps.size() != 1 || !known.launch.can_be_repeated() ||
                  !Registry::instance().is_own(*plan.steps.front().algorithm);
  if (known.is_vain) return;
  const GroupStep& step = plan.steps.front();
  known.parts = publisher_.parts_of(plan);
  known.first = step.calls.front();
  known.algorithm = algorithms_.number_of(*step.algorithm);
  known.memory.clear();
  for (const GroupedCall& call : plan.calls)
    for (const auto& window : {call.call.send_memory, call.call.recv_memory})
      if (window != nullptr) known.memory.emplace_back(window);
  known.keep(request, {heap.allocations(), memory_->grants()});
} catch (const std::bad_alloc&) {
  known.is_whole = false;
}

void CommunicatorState::enqueue(const Call& call, const void* send, void* recv, StreamRef stream,
                                const CallOptions& options) {
  const Request request{.call = call, .send = send, .recv = recv, .options = options};
  const KnownCalls::Found found = find_known(request);
  const auto refused = [&] { return RefusedParts::of(call); };
  if (found.known != nullptr)
    return enqueue_again(*found.known, name_of(call.collective), stream.native(), options, refused);
  PlanOfOneCall plan(of_call_);
  GroupedCall& only = plan->calls.emplace_back();
  const auto prepare_it = [&] {
    return prepare_in(only.call, call, send, recv, stream.native(), options);
  };
  if (!or_refuse(refused, prepare_it)) return;
  only.stream = backend->resolve(stream.native());
  plan_one_step(*plan);
  submit(*plan, found.empty, request);
}

void CommunicatorState::add_parts(std::span<const CallPart> parts, StreamRef stream,
                                  const CallOptions& options) {
  if (!settings.check_calls) {
    for (const auto& [call, send, recv] : parts) this->call(call, send, recv, stream, options);
    return;
  }
  OpenGroup& group = OpenGroup::of_thread();
  group.add(*this, [&] {
    // First of all, because a rank that refuses the whole has no parts to compare.
    group.compare_at_end(*this, [this] { agree_on_call({}, [] {}); });
    for (const CallPart& part : parts) add_to(group, part, stream.native(), options);
  });
  group.refuse(*this, {.collective = !parts.empty()});
}

namespace {

/// Whether what this rank receives in one part overlaps what it has in another.
bool overlap(std::span<const CallPart> parts, int rank) {
  const auto meet = [](const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
    const auto x = reinterpret_cast<std::uintptr_t>(a), y = reinterpret_cast<std::uintptr_t>(b);
    return x < y + b_bytes && y < x + a_bytes;
  };
  for (const CallPart& to : parts) {
    if (!has(facts_of(to.call.collective).recv, to.call, rank)) continue;
    for (const CallPart& from : parts)
      if (&from != &to && meet(to.recv, recv_bytes(to.call), from.send, send_bytes(from.call)))
        return true;
  }
  return false;
}

}  // namespace

/// What may be refused is refused before the first part is enqueued. Parts that are known have been
/// through that, except that each may have been a call by itself.
void CommunicatorState::calls(std::string_view what, std::span<const CallPart> parts,
                              StreamRef stream, const CallOptions& options) {
  const auto check = [&] {
    std::vector<GroupedCall> prepared;
    for (const auto& [call, send, recv] : parts)
      if (auto part = prepare(call, send, recv, stream.native(), options))
        prepared.push_back({*std::move(part), stream.native()});
    const MemberCalls alone{prepared, rank(), birth()};
    check_disjoint({&alone, 1}, what);
  };
  if (overlap(parts, rank()) || !knows(parts, options))
    or_refuse([&] { return RefusedParts{.collective = !parts.empty()}; }, check);
  bool has_begun = false;
  try {
    for (const auto& [call, send, recv] : parts) {
      enqueue(call, send, recv, stream, options);
      has_begun = true;
    }
  } catch (const std::exception& error) {  // such as no memory
    if (has_begun) abort(fmt::format("a part of {} could not be enqueued: {}", what, error.what()));
    throw;
  }
  if (options.blocking) synchronize(stream);
}

void CommunicatorState::submit(const PreparedCall& call, NativeStream stream) {
  PlanOfOneCall plan(of_call_);
  plan->calls.push_back({call, backend->resolve(stream)});
  plan_one_step(*plan);
  submit(*plan);
}

void CommunicatorState::check_ends(std::string_view what, DataType type,
                                   std::span<const MessageEnd> ends, NativeStream stream,
                                   const CallOptions& options) const {
  preparer_.check_ends(what, type, ends, options, stream);
  throw_if_broken();
}

std::vector<PreparedCall> CommunicatorState::prepare_messages(std::string_view what, DataType type,
                                                              std::span<const MessageEnd> ends,
                                                              NativeStream stream,
                                                              const CallOptions& options) {
  check_ends(what, type, ends, stream, options);
  std::vector<PreparedCall> all;
  all.reserve(ends.size());
  for (const MessageEnd& end : ends)
    if (!prepare_end(all.emplace_back(), what, type, end, options)) all.pop_back();
  return all;
}

void CommunicatorState::messages(std::string_view what, DataType type,
                                 std::span<const MessageEnd> ends, StreamRef stream,
                                 const CallOptions& options, const CallByAll* by_all) {
  const bool together = by_all != nullptr && settings.check_calls;
  std::vector<GroupedCall> calls;
  const auto look = [&] {
    for (PreparedCall& part : prepare_messages(what, type, ends, stream.native(), options))
      calls.push_back({std::move(part), backend->resolve(stream.native())});
    if (together) check_among_themselves(calls, what);
  };
  const auto refused = [&] {
    return by_all != nullptr ? RefusedParts::of_all_messages() : refused_parts_of(ends);
  };
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open()) {
    const auto add = [&] {
      std::optional<Error> refusal;
      if (together) {
        refusal = refusal_of(look);
        group.compare_at_end(*this, [this, refusal, what = std::string(what), type,
                                     root = by_all->root, options] {
          agree_on_call(refusal, [&] { check_agreement(*bootstrap, what, type, root, options); });
        });
      } else {
        look();
      }
      if (refusal) return;
      for (const GroupedCall& part : calls) group.add_part(*this, part.call, stream.native());
    };
    const bool added = together ? group.add(*this, add) : group.add(add);
    if (!added || by_all != nullptr) group.refuse(*this, refused());
    return;
  }
  or_refuse(refused, [&] {
    if (together)
      agree_on_call(refusal_of(look),
                    [&] { check_agreement(*bootstrap, what, type, by_all->root, options); });
  });
  enqueue_messages(what, type, ends, stream, options, refused);
  if (options.blocking) synchronize(stream);
}

template <class Refused>
void CommunicatorState::enqueue_messages(std::string_view what, DataType type,
                                         std::span<const MessageEnd> ends, StreamRef stream,
                                         const CallOptions& options, Refused refused) {
  const Request request{.call = {.collective = Collective::send_recv, .type = type},
                        .ends = ends,
                        .options = options};
  const KnownCalls::Found found = find_known(request);
  if (found.known != nullptr)
    return enqueue_again(*found.known, what, stream.native(), options, refused);
  PlanOfOneCall plan(of_messages_);
  std::vector<GroupedCall>& calls = plan->calls;
  or_refuse(refused, [&] {
    check_ends(what, type, ends, stream.native(), options);
    const NativeStream resolved = backend->resolve(stream.native());
    for (const MessageEnd& end : ends) {
      calls.emplace_back().stream = resolved;
      if (!prepare_end(calls.back().call, what, type, end, options)) calls.pop_back();
    }
    check_among_themselves(calls, what);
    plan_steps(*plan);
  });
  if (calls.empty()) return;
  submit(*plan, found.empty, request);
}

RefusedParts CommunicatorState::refused_parts_of(std::span<const MessageEnd> ends) {
  RefusedParts parts;
  for (const MessageEnd& end : ends)
    if (end.count != 0 || end.always) parts.add({.peer = end.peer, .sends = end.sends});
  return parts;
}

void CommunicatorState::check_among_themselves(const std::vector<GroupedCall>& calls,
                                               std::string_view what) const {
  const MemberCalls alone{calls, rank(), birth()};
  check_disjoint({&alone, 1}, what);
  check_own_messages(calls, rank(), what);
}

/// The other ranks' calls are compared with this one before its parts are, because those do not
/// know the elements.
void CommunicatorState::reduce_on_host(const HostReduction& reduction, std::size_t elements,
                                       StreamRef stream) {
  const std::string_view what = name_of(reduction.collective);
  const RefusedParts refused{.collective = reduction.count != 0};
  if (OpenGroup::of_thread().is_open())
    return refuse(Error(ErrorCode::unsupported,
                        fmt::format("{}: rank {}: a group does not collect reductions by a "
                                    "function of the program",
                                    what, rank())),
                  refused);
  const auto check = [&] {
    check_host_operation(reduction, elements, backend->info().backend, rank(), bootstrap->size());
    PreparedCall moved;
    preparer_.describe(moved, in_units(reduction), reduction.send, reduction.recv, {});
    preparer_.check(moved, {}, stream.native());
    throw_if_broken();
  };
  or_refuse([&] { return refused; },
            [&] {
              if (settings.check_calls)
                agree_on_call(refusal_of(check), [&] { check_agreement(*bootstrap, reduction); });
              else check();
            });
  if (reduction.count != 0) host_reducer_.run(reduction, stream);
}

bool CommunicatorState::is_capturing(NativeStream stream) {
  const DeviceScope device(*backend);
  return backend->is_capturing(stream);
}

void CommunicatorState::plan_steps(GroupPlan& plan) {
  plan_group(
      plan.calls, [this](const Call& all) { return preparer_.choose_batch(all); }, plan.steps);
}

GroupPlan CommunicatorState::plan(std::vector<GroupedCall>&& calls) {
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
  GroupPlan plan{.calls = std::move(calls), .steps = {}, .is_group = true};
  plan_steps(plan);
  return plan;
}

void CommunicatorState::publish(GroupPlan& plan) { publisher_.publish(plan); }

void CommunicatorState::submit(GroupPlan& plan) {
  must_enqueue([&] {
    publish(plan);
    check_refusals();
    if (plan.steps.empty()) return;  // all calls are empty messages
    const DeviceScope device(*backend);
    make_room(plan);
    launcher_->launch(plan);
    if (plan.is_group) ++groups_;
  });
}

/// Submits a plan of one call, and keeps that in `empty` if it is not null.
void CommunicatorState::submit(GroupPlan& plan, KnownCall* empty, const Request& request) {
  if (empty == nullptr) return submit(plan);
  empty->launch.clear();
  plan.record = &empty->launch;
  submit(plan);
  keep(*empty, request, plan);
}

bool CommunicatorState::grows(const GroupPlan& plan) const { return !launcher_->has_room(plan); }

void CommunicatorState::grow(const GroupPlan& plan) {
  const DeviceScope device(*backend);
  must_enqueue([&] { make_room(plan); });
}

/// A device may fail because a peer's process has ended: processes that share a GPU through MPS
/// share its faults, too, and kernels may have been using the peer's memory. Then the error is the
/// lost rank, and this names both. None if the failure is not the device's, or no rank is lost.
std::optional<Error> CommunicatorState::lost_rank_behind(const Error& failure) const {
  if (failure.code() != ErrorCode::backend) return std::nullopt;
  // The device may know before the system says that the process has ended.
  const auto until = std::chrono::steady_clock::now() + 4 * monitor_period;
  for (watchdog_->look(); !watchdog_->is_broken(); watchdog_->look()) {
    if (std::chrono::steady_clock::now() > until) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  const auto broken = tell_error();
  if (!broken || broken->code() != ErrorCode::rank_lost) return std::nullopt;
  return Error(ErrorCode::rank_lost,
               fmt::format("{}; this process has lost its device with it, and can't use that any "
                           "more: {}",
                           broken->what(), failure.what()));
}

/// A published call must also be enqueued, or the other ranks would take this rank's next call for
/// it. So the communicator breaks if `body` throws.
template <class Body>
void CommunicatorState::must_enqueue(Body body) {
  try {
    body();
  } catch (const Error& error) {
    if (auto lost = lost_rank_behind(error)) throw *std::move(lost);
    abort(fmt::format("a call could not be enqueued: {}", error.what()));
    throw;
  } catch (const std::exception& error) {
    abort(fmt::format("a call could not be enqueued: {}", error.what()));
    throw;
  }
}

/// If the memory can't be had, all ranks hear why, because they count on the call. An error that
/// another rank met first is thrown in that rank's words.
void CommunicatorState::make_room(const GroupPlan& plan) {
  try {
    launcher_->make_room(plan);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::mismatch) compare();  // its error names the calls
    std::string text = error.what();
    if (error.code() == ErrorCode::timeout && !watchdog_->await_error()) {
      text += "; the communicator is broken";
      for (int rank = 0; rank < board_->ranks(); ++rank)
        text += "\n  " + board_->describe(rank, algorithms_.names());
    }
    watchdog_->abort(error.code(), text);
    // Not throw_if_broken, because this may be any thread.
    if (auto broken = tell_error()) throw *std::move(broken);
    throw;
  }
}

void CommunicatorState::refuse(const Error& error, const RefusedParts& parts, bool together) {
  // With PLAIT_CHECK=1 the other ranks wait for this one to agree with them.
  const bool is_heard = together && settings.check_calls;
  const auto tell = [this, error] { agree_on_call(error, [] {}); };
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open())
    return or_refuse([&] { return parts; },
                     [&] {
                       if (is_heard) tell();
                       throw error;
                     });
  group.add(*this, [&] {
    if (!is_heard) throw error;
    group.compare_at_end(*this, tell);
  });
  group.refuse(*this, parts);
}

/// For functions that a group does not collect.
void CommunicatorState::check_not_grouped(std::string_view what,
                                          std::string_view consequence) const {
  if (OpenGroup::of_thread().has_calls_of(*this))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: rank {}: this communicator has calls in a group that has not ended: {}",
                    what, bootstrap->rank(), consequence));
}

/// Collective even if there is nothing to allocate, so a program may do the same on every target.
void CommunicatorState::reserve() {
  constexpr const char* what = "reserve";
  check_not_grouped(what, "they would be enqueued after it");
  throw_if_broken();
  const BootstrapHooks::Purpose purpose(*bootstrap, what);
  // After the barrier, all ranks have published their earlier calls.
  on_behalf_of(*bootstrap, what, [&] { bootstrap->barrier(); });
  agree(*bootstrap, what, [&] {
    // Later messages may use other memory than earlier ones, so both ends of a message must be on
    // one side of this call.
    if (const std::string apart = board_->apart(); !apart.empty())
      throw Error(
          ErrorCode::mismatch,
          fmt::format("messages have one end before this call and one after it: {}", apart));
  });
  const DeviceScope device(*backend);
  memory_->reserve(*bootstrap, what);
}

void CommunicatorState::copy(void* to, const void* from, std::size_t bytes, StreamRef stream) {
  check_not_grouped("copy", "the copy would run before them");
  if (bytes == 0) return;
  if (to == nullptr || from == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("copy: rank {}: {} is null, with {} bytes", rank(),
                            to == nullptr ? "to" : "from", bytes));
  preparer_.check_live("copy", stream.native());
  static_cast<void>(preparer_.find("copy", "to", to, bytes));
  static_cast<void>(preparer_.find("copy", "from", from, bytes));
  const DeviceScope device(*backend);
  const NativeStream resolved = backend->resolve(stream.native());
  launcher_->order().enter_copy(resolved);
  backend->copy(to, from, bytes, resolved);
  launcher_->order().leave_copy(resolved);
}

/// Runs `body`, which waits for work of the device, or asks for it.
template <class Body>
auto CommunicatorState::waiting(Body body) const {
  try {
    return body();
  } catch (const Error& error) {
    if (auto lost = lost_rank_behind(error)) throw *std::move(lost);
    throw;
  }
}

void CommunicatorState::synchronize(StreamRef stream) {
  check_not_grouped("synchronize", "nothing would wait for them");
  preparer_.check_live("synchronize", stream.native());
  const DeviceScope device(*backend);
  waiting([&] { launcher_->order().synchronize(backend->resolve(stream.native())); });
  watchdog_->compare_now_and_then();
  throw_if_broken();
}

/// The stream of `test` or `wait_any`, resolved.
NativeStream CommunicatorState::check_waited(std::string_view what, StreamRef stream) {
  check_not_grouped(what, "their end can't be seen yet");
  preparer_.check_live(what, stream.native());
  const NativeStream resolved = backend->resolve(stream.native());
  if (backend->is_capturing(resolved))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: the stream is being captured, so nothing of it runs",
                            what, rank()));
  return resolved;
}

/// Throws as `synchronize`, and as late: once the stream is empty, so nothing uses its buffers. A
/// broken communicator's kernels end by themselves.
bool CommunicatorState::has_ended(NativeStream stream) {
  if (!waiting([&] { return launcher_->order().is_done(stream); })) return false;
  watchdog_->compare_now_and_then();
  throw_if_broken();
  return true;
}

bool CommunicatorState::test(StreamRef stream) {
  const DeviceScope device(*backend);
  return has_ended(check_waited("test", stream));
}

std::size_t CommunicatorState::wait_any(std::span<const StreamRef> streams) {
  constexpr const char* what = "wait_any";
  if (streams.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: rank {}: no streams", what, rank()));
  const DeviceScope device(*backend);
  std::vector<NativeStream> resolved;
  resolved.reserve(streams.size());
  for (const StreamRef stream : streams) resolved.push_back(check_waited(what, stream));
  for (Backoff backoff(stream_pace);; backoff.pause())
    for (std::size_t i = 0; i < resolved.size(); ++i)
      if (has_ended(resolved[i])) return i;
}

Statistics CommunicatorState::statistics() const {
  Statistics statistics = launcher_->statistics();
  statistics.calls = publisher_.calls();
  statistics.groups = groups_;
  statistics.scratch_bytes = memory_->bytes();
  statistics.scratch_bytes_committed = memory_->committed();
  return statistics;
}

}  // namespace plait
