#include "communicator/communicator_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "bootstrap/bootstrap_hooks.hpp"
#include "communicator/check.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/float_environment.hpp"
#include "core/log.hpp"

namespace plait {

std::vector<const Algorithm*> CommunicatorState::registered() {
  std::vector<const Algorithm*> algorithms;
  for (const auto& algorithm : Registry::instance().all()) algorithms.push_back(algorithm.get());
  return algorithms;
}

std::vector<std::string> CommunicatorState::names(const std::vector<const Algorithm*>& algorithms) {
  std::vector<std::string> names;
  for (const Algorithm* algorithm : algorithms) names.emplace_back(algorithm->name());
  return names;
}

CommunicatorState::CommunicatorState(std::unique_ptr<Bootstrap> b,
                                     const CommunicatorOptions& options,
                                     const CommunicatorState* parent, HostDevices host)
    : bootstrap(interruptible(std::move(b), parent)),
      creating_(std::in_place, *bootstrap, "creating a communicator"),
      made_with(options),
      settings(agree_on_settings(*bootstrap, options)),
      backend(open_device(*bootstrap, options, settings,
                          parent != nullptr ? parent->backend.get() : nullptr, host)),
      counted(*backend),
      heap(backend, *bootstrap),
      selector(make_selector(discover_topology(*bootstrap, *backend, settings))),
      board_(std::make_shared<Board>(*bootstrap)),
      in_calls_(board_->desks(), bootstrap->rank()),
      order_(backend),
      events_(backend) {
  agree(*bootstrap, "loading kernels", [&] { backend->load_kernels(); });
  memory_ = std::make_unique<AlgorithmMemory>(backend, *bootstrap, in_calls_, heap,
                                              selector.topology(), algorithms_);
  agree(*bootstrap, "creating the watchdog, work memory, streams and threads", [&] {
    watchdog_ = std::make_shared<Watchdog>(backend, board_, names(algorithms_), memory_->claimed(),
                                           settings.timeout, bootstrap->rank());
    sides_ = std::make_unique<SideStreams>(backend);
    work_ = std::make_unique<WorkMemory>(backend, events_, settings.work_fifo_bytes,
                                         [this] { throw_if_broken(); });
    joined_ = backend->create_event(false);
    start_log(parent != nullptr ? parent->trace_file() : nullptr);
    if (bootstrap->size() > 1) monitored_.emplace([this] { watchdog_->look(); });
  });
  BootstrapHooks::set_interrupt(*bootstrap, [this] { look_and_throw(); });
  in_calls_.set_timeout(settings.timeout);
  BootstrapHooks::set_interrupt(in_calls_, [this] {
    watchdog_->look();
    if (auto broken = tell_error()) throw *std::move(broken);
  });
  BootstrapHooks::set_farewell(*bootstrap, [this] { board_->announce(Board::State::ending); });
  remember_device(*backend);
  creating_.reset();
}

Selector CommunicatorState::make_selector(const Topology& topology) const {
  return {topology, algorithms_, bootstrap->rank(),
          settings.tuning ? tuning_rules(*settings.tuning, topology) : RuleList()};
}

std::unique_ptr<Bootstrap> CommunicatorState::interruptible(std::unique_ptr<Bootstrap> bootstrap,
                                                            const CommunicatorState* parent) {
  if (parent != nullptr)
    BootstrapHooks::set_interrupt(*bootstrap, [parent] { parent->look_and_throw(); });
  return bootstrap;
}

/// The monitor would see it a little later.
void CommunicatorState::look_and_throw() const {
  watchdog_->look();
  throw_if_broken();
}

void CommunicatorState::throw_broken() const {
  auto broken = tell_error();
  if (!broken) return;
  abandon(*broken);
  throw *std::move(broken);
}

void CommunicatorState::abandon(const Error& error) const {
  bool lost = error.code() == ErrorCode::timeout;
  // One that has only left the communicator still takes part in what its job does at the end.
  for (int rank = 0; rank < bootstrap->size() && error.code() == ErrorCode::rank_lost; ++rank)
    lost = lost || !board_->is_alive(rank);
  BootstrapHooks::abandon(*bootstrap, error.what(), lost);
}

void CommunicatorState::start_log(std::shared_ptr<TraceFile> trace) {
  if (settings.trace && !trace)
    trace = TraceFile::open(*settings.trace, bootstrap->rank(), bootstrap->size());
  if (settings.progress) log_ = std::make_unique<BlockLog>(backend, trace != nullptr);
  if (!trace) return;
  const DeviceInfo& device = backend->info();
  trace_ = std::make_unique<Trace>(
      std::move(trace), *log_,
      fmt::format("rank {} of {}, {} device {}", bootstrap->rank(), bootstrap->size(),
                  name_of(device.backend), device.ordinal),
      names(algorithms_), device.backend == BackendKind::host);
}

/// Waits for all that is enqueued, while the monitor still looks: a kernel that waits for a peer
/// ends when that has aborted or is lost.
void CommunicatorState::finish() noexcept {
  events_.drain();
  try {
    const DeviceScope device(*backend);
    backend->synchronize_device();
  } catch (const std::exception&) {  // a device that is lost runs nothing
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
  watchdog_->look();  // also what the monitor has not seen yet: the bootstrap must not wait for a
                      // rank that is lost
  warn_of_left_over();
  board_->announce(Board::State::left);
  BootstrapHooks::set_interrupt(*bootstrap, {});
  BootstrapHooks::set_farewell(*bootstrap, {});
  const auto broken = watchdog_->await_error();
  if (!broken) return;
  if (!watchdog_->was_told()) log::error("{}", broken->what());
  abandon(*broken);
}

/// Nobody will receive it any more. What graphs receive is not known.
void CommunicatorState::warn_of_left_over() const {
  if (watchdog_->await_error() || captures_) return;
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

/// The symmetric memory that a call's buffer is in; null if it is ordinary. Throws if it begins in
/// the one and ends beyond.
std::shared_ptr<Window> CommunicatorState::find(std::string_view what, const char* buffer,
                                                const void* pointer, std::size_t bytes) const {
  std::shared_ptr<Window> window = heap.at(pointer);
  if (!window) return nullptr;
  const auto offset =
      static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - window->local());
  if (bytes <= window->bytes() - offset) return window;
  if (offset == window->bytes() && offset != 0) return nullptr;  // other memory may begin there
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: rank {}: {} = {} begins at offset {} of a symmetric buffer of {} bytes, "
                  "which has no room for {} bytes there",
                  what, bootstrap->rank(), buffer, pointer, offset, window->bytes(), bytes));
}

/// Finds out whether the buffers that every rank has are symmetric memory, and where in it.
void CommunicatorState::locate(PreparedCall& prepared) const {
  Call& call = prepared.call;
  Buffers& buffers = prepared.buffers;
  Place& place = prepared.place;
  const CollectiveFacts facts = facts_of(call.collective);
  std::shared_ptr<Window> send =
      find(name_of(call.collective), "send", buffers.send, send_bytes(call));
  std::shared_ptr<Window> recv =
      find(name_of(call.collective), "recv", buffers.recv, recv_bytes(call));
  prepared.send_memory = send;
  prepared.recv_memory = recv;
  if ((!send && !facts.send.root_only) || (!recv && !facts.recv.root_only)) return;
  if (facts.send.root_only) send.reset();
  if (facts.recv.root_only) recv.reset();
  call.symmetric = true;
  const auto* from = static_cast<const std::byte*>(buffers.send);
  auto* to = static_cast<std::byte*>(buffers.recv);
  if (send) {
    buffers.send_range = &send->range();
    buffers.send_offset = place.send_offset = static_cast<std::size_t>(from - send->local());
    buffers.send_window = send->view().at(buffers.send_offset);
    place.send_window = send->number();
  }
  if (recv) {
    buffers.recv_range = &recv->range();
    buffers.recv_offset = place.recv_offset = static_cast<std::size_t>(to - recv->local());
    buffers.recv_window = recv->view().at(buffers.recv_offset);
    place.recv_window = recv->number();
  }
  call.in_place = !facts.rooted && to == from + in_place_distance(call, bootstrap->rank());
  if (!call.in_place || facts.send.size == facts.recv.size) return;
  // The smaller buffer is this rank's block of the larger one.
  if (facts.send.size == BufferFacts::Size::one) place.send_window = place.send_offset = 0;
  else place.recv_window = place.recv_offset = 0;
}

std::string CommunicatorState::places(const PreparedCall& prepared) const {
  const auto& [call, buffers] = std::tie(prepared.call, prepared.buffers);
  if (!call.symmetric) return "ordinary memory";
  const CollectiveFacts facts = facts_of(call.collective);
  if (call.in_place)  // the smaller buffer is the rank's own block of the larger one
    return heap.describe(facts.send.size == BufferFacts::Size::one_per_rank ? buffers.send
                                                                            : buffers.recv) +
           ", in place";
  if (facts.send.root_only) return heap.describe(buffers.recv);
  if (facts.recv.root_only) return heap.describe(buffers.send);
  return heap.describe(buffers.send) + ", " + heap.describe(buffers.recv);
}

const CommunicatorState::CachedChoice& CommunicatorState::known(const Call& call) {
  if (last_known_ != nullptr && last_known_->first == call) return last_known_->second;
  auto found = known_.find(call);
  if (found == known_.end()) {
    if (known_.size() >= 4096) known_.clear();
    last_known_ = nullptr;
    const FloatEnvironment defaults;  // estimates are compared: rounded in another mode, they might
                                      // order algorithms otherwise on one rank
    Choice choice = selector.choose(call, {});
    const bool shares = selector.gains_in_batch(call, choice);
    found =
        known_.emplace(call, CachedChoice{std::move(choice), shares, selector.choose_batch(call)})
            .first;
  }
  last_known_ = &*found;
  return found->second;
}

void CommunicatorState::check_live(std::string_view what, NativeStream stream) const {
  if (backend->is_live(stream)) return;
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format(
          "{}: rank {}: {} is no stream: it has been destroyed, or is the stream of another target",
          what, rank(), stream));
}

/// Calls are ordered by the handles of their streams, and may be enqueued by another thread than
/// the caller's.
void CommunicatorState::check_stream(std::string_view what, NativeStream stream) const {
  if (backend->names_one_stream(stream)) return check_live(what, stream);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: rank {}: stream {} is the default stream of whichever thread uses "
                          "it, so calls on it have no order: pass one "
                          "that was created",
                          what, rank(), stream));
}

namespace {

/// Of a communicator of one rank: the result is where it has to be, in place, and nobody asks for a
/// launch of his own.
bool is_done_already(const Call& call, const Buffers& buffers, const CallOptions& options) {
  return call.collective != Collective::barrier && buffers.send == buffers.recv &&
         options.algorithm.empty() && options.blocks == 0 && options.threads == 0 &&
         (call.op != ReduceOp::premul_sum || call.scale == 1);
}

}  // namespace

std::optional<PreparedCall> CommunicatorState::prepare(const Call& wanted, const void* send,
                                                       void* recv, NativeStream stream,
                                                       const CallOptions& options) {
  std::optional<PreparedCall> result(std::in_place);  // filled in where the caller gets it
  PreparedCall& prepared = *result;
  if (trace_) prepared.begin = std::chrono::steady_clock::now();
  Call& call = prepared.call;
  Buffers& buffers = prepared.buffers;
  const int rank = bootstrap->rank();
  if (wanted.collective == Collective::send_recv)
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("rank {}: send_recv is no collective: Communicator has messages", rank));
  call = described(wanted, options, rank, bootstrap->size());
  // What a rank need not have is not looked at.
  buffers.send = has(facts_of(call.collective).send, call, rank) ? send : nullptr;
  buffers.recv = has(facts_of(call.collective).recv, call, rank) ? recv : nullptr;
  const auto check = [&] {
    check_call(call, options, buffers, rank, bootstrap->size());
    check_stream(name_of(call.collective), stream);
  };
  std::optional<BootstrapHooks::Purpose> purpose;
  if (settings.check_calls) {
    purpose.emplace(*bootstrap, "a collective call (PLAIT_CHECK=1)");
    agree(*bootstrap, "PLAIT_CHECK", [&] {
      throw_if_broken();
      check();
      if (call.count != 0) locate(prepared);
    });
  } else {
    check();
    throw_if_broken();
    if (call.count != 0) locate(prepared);
  }
  if (settings.check_calls) check_agreement(*bootstrap, call, options, places(prepared));
  if (call.count == 0 && call.collective != Collective::barrier) {
    selector.check_known(call.collective, options);
    result.reset();
    return result;
  }
  choose(prepared, options);
  prepared.done_already = bootstrap->size() == 1 && is_done_already(call, buffers, options);
  if (trace_) prepared.end = std::chrono::steady_clock::now();
  return result;
}

/// Finds the receiver's buffer in symmetric memory.
void CommunicatorState::locate_receiver(PreparedCall& prepared, void* receiver) const {
  const std::size_t bytes = prepared.call.block_bytes();
  std::shared_ptr<Window> window = heap.find(receiver, bytes);
  if (!window)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("send_recv: rank {}: recv = {} with {} bytes is not in symmetric "
                            "memory, as the option `symmetric` says",
                            bootstrap->rank(), receiver, bytes));
  Buffers& buffers = prepared.buffers;
  prepared.call.symmetric = true;
  buffers.recv_range = &window->range();
  buffers.recv_offset = prepared.place.recv_offset =
      static_cast<std::size_t>(static_cast<std::byte*>(receiver) - window->local());
  prepared.place.recv_window = window->number();
  prepared.recv_memory = std::move(window);
}

/// One end of a message, in a new `prepared`. Ranks make such calls at will, so PLAIT_CHECK has no
/// rank to agree with. False: the call has nothing to do.
bool CommunicatorState::prepare(PreparedCall& prepared, std::string_view what, DataType type,
                                const MessageEnd& end, const CallOptions& options) {
  if (trace_) prepared.begin = std::chrono::steady_clock::now();
  prepared.call = {.collective = Collective::send_recv, .type = type, .count = end.count};
  prepared.buffers.peer = end.peer;
  prepared.sends = end.sends;
  if (end.sends) prepared.buffers.send = end.buffer;
  else prepared.buffers.recv = end.buffer;
  if (end.count == 0) {
    selector.check_known(Collective::send_recv, options);
    return end.always && end.peer != bootstrap->rank();
  }
  if (end.sends) prepared.send_memory = find(what, "send", end.buffer, prepared.call.bytes());
  else prepared.recv_memory = find(what, "recv", end.buffer, prepared.call.bytes());
  if (options.symmetric) locate_receiver(prepared, end.receiver);
  choose(prepared, options);
  if (trace_) prepared.end = std::chrono::steady_clock::now();
  return true;
}

void CommunicatorState::choose(PreparedCall& prepared, const CallOptions& options) {
  const auto take = [&](const Choice& choice) {
    prepared.algorithm = choice.algorithm;
    prepared.shape = choice.shape;
    prepared.wished = choice.wished;
  };
  const bool shaped = options.blocks != 0 || options.threads != 0;
  if (shaped || !options.algorithm.empty()) {
    const auto is_last = [&](const Wished& last) {
      return last.call == prepared.call && last.blocks == options.blocks &&
             last.threads == options.threads && last.name == options.algorithm;
    };
    if (!last_wished_ || !is_last(*last_wished_)) {
      const FloatEnvironment defaults;
      last_wished_.reset();  // the choice may throw
      last_wished_ = {prepared.call, options.algorithm, options.blocks, options.threads,
                      selector.choose(prepared.call, options)};
    }
    take(last_wished_->choice);
    prepared.shares = !shaped && prepared.algorithm->batches(selector.topology());
  } else {
    const CachedChoice& remembered = known(prepared.call);
    take(remembered.choice);
    prepared.shares = remembered.shares;
  }
}

Watch CommunicatorState::watch(std::uint64_t call, std::size_t algorithm) const {
  Watch watch = watchdog_->watch(call, static_cast<std::uint32_t>(algorithm));
  if (log_) log_->put_into(watch);
  return watch;
}

std::size_t CommunicatorState::number_of(const Algorithm& algorithm) const {
  if (algorithms_[last_number_] != &algorithm)
    last_number_ = static_cast<std::size_t>(
        std::find(algorithms_.begin(), algorithms_.end(), &algorithm) - algorithms_.begin());
  return last_number_;
}

void CommunicatorState::call(const Call& call, const void* send, void* recv, StreamRef stream,
                             const CallOptions& options) {
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open())
    return group.add(*this, stream.native(),
                     [&] { return prepare(call, send, recv, stream.native(), options); });
  if (const auto prepared = prepare(call, send, recv, stream.native(), options))
    enqueue(*prepared, stream.native());
}

void CommunicatorState::messages(std::string_view what, DataType type,
                                 std::span<const MessageEnd> ends, StreamRef stream,
                                 const CallOptions& options) {
  const auto check = [&] {
    check_options(what, options, bootstrap->rank());
    for (const MessageEnd& end : ends) {
      check_message({.collective = Collective::send_recv, .type = type, .count = end.count}, end,
                    bootstrap->rank(), bootstrap->size(), what);
    }
    check_stream(what, stream.native());
    throw_if_broken();
  };
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open())
    return group.add([&] {
      check();
      for (const MessageEnd& end : ends)
        if (PreparedCall prepared; prepare(prepared, what, type, end, options))
          group.add_part(*this, prepared, stream.native());
    });
  check();
  plan_.is_published = false;
  std::vector<GroupedCall>& calls = plan_.calls;
  struct Clear {  // also where the call is refused: calls hold the memory they are in
    std::vector<GroupedCall>& calls;
    ~Clear() { calls.clear(); }
  } const at_the_end{calls};
  const NativeStream resolved = backend->resolve(stream.native());
  for (const MessageEnd& end : ends) {
    calls.emplace_back().stream = resolved;
    if (!prepare(calls.back().call, what, type, end, options)) calls.pop_back();
  }
  if (calls.empty()) return;
  const MemberCalls alone{calls, rank(), communicator()};
  check_disjoint({&alone, 1}, what);
  check_own_messages(calls, rank(), what);
  plan_steps(calls, plan_.steps);
  issue(plan_);
}

void CommunicatorState::refuse(const Error& error, bool collective) {
  // The other ranks wait for this one to agree with them.
  const auto refused = [&]() -> std::optional<PreparedCall> {
    if (collective && settings.check_calls) {
      const BootstrapHooks::Purpose purpose(*bootstrap, "a collective call (PLAIT_CHECK=1)");
      agree(*bootstrap, "PLAIT_CHECK", [&] { throw error; });
    }
    throw error;
  };
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open()) static_cast<void>(refused());
  else group.add(*this, nullptr, refused);
}

/// For what is not collected in groups.
void CommunicatorState::check_not_grouped(std::string_view what,
                                          std::string_view consequence) const {
  if (OpenGroup::of_thread().has_calls_of(*this))
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: rank {}: this communicator has calls in a group that has not ended: {}",
                    what, bootstrap->rank(), consequence));
}

/// Collective also where there is nothing to allocate, so that a program does the same everywhere.
void CommunicatorState::reserve() {
  constexpr const char* what = "reserve";
  check_not_grouped(what, "they would be enqueued after it");
  throw_if_broken();
  const BootstrapHooks::Purpose purpose(*bootstrap, what);
  on_behalf_of(*bootstrap, what,
               [&] { bootstrap->barrier(); });  // all ranks have published what they called before
  agree(*bootstrap, what, [&] {
    // From now on messages may be sent through other memory than before.
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
  check_live("copy", stream.native());
  static_cast<void>(find("copy", "to", to, bytes));
  static_cast<void>(find("copy", "from", from, bytes));
  const DeviceScope device(*backend);
  const NativeStream resolved = backend->resolve(stream.native());
  order_.enter_copy(resolved);
  backend->copy(to, from, bytes, resolved);
  order_.leave_copy(resolved);
}

void CommunicatorState::synchronize(StreamRef stream) {
  check_not_grouped("synchronize", "nothing would wait for them");
  check_live("synchronize", stream.native());
  const DeviceScope device(*backend);
  order_.synchronize(backend->resolve(stream.native()));
  watchdog_->compare_now_and_then();
  throw_if_broken();
}

Statistics CommunicatorState::statistics() const {
  Statistics statistics = work_->statistics();
  statistics.calls = statistics_.calls;
  statistics.launches = statistics_.launches;
  statistics.groups = statistics_.groups;
  statistics.batched = statistics_.batched;
  statistics.scratch_bytes = memory_->bytes();
  statistics.scratch_bytes_committed = memory_->committed();
  return statistics;
}

}  // namespace plait
