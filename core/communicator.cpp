#include "plait/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/board.hpp"
#include "core/check.hpp"
#include "core/collectives.hpp"
#include "core/event_queue.hpp"
#include "core/group.hpp"
#include "core/log.hpp"
#include "core/monitor.hpp"
#include "core/progress.hpp"
#include "core/selection.hpp"
#include "core/setup.hpp"
#include "core/side_stream.hpp"
#include "core/stream_order.hpp"
#include "core/trace.hpp"
#include "core/watchdog.hpp"
#include "core/work_memory.hpp"
#include "core/workspace.hpp"
#include "symm_mem/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Everything a communicator owns. Members are destroyed in reverse: memory before the device it lies on, that before the bootstrap.
class CommunicatorState final : public GroupMember {
 public:
  /// `trace`: the file of the communicator that this one is a part of, if it has one.
  CommunicatorState(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options, std::shared_ptr<TraceFile> trace = nullptr);
  ~CommunicatorState();
  CommunicatorState(const CommunicatorState&) = delete;
  CommunicatorState& operator=(const CommunicatorState&) = delete;

  /// Enqueues the call, or adds it to this thread's group.
  void call(const Call& call, const void* send, void* recv, StreamRef stream, const CallOptions& options);
  /// Throws, or lets the group throw at its end.
  void refuse(const Error& error);
  void synchronize(StreamRef stream);
  Statistics statistics() const;

  bool is_capturing(NativeStream stream) override;
  std::function<void()> plan(std::vector<GroupedCall> calls) override;

  std::optional<Error> error() const { return watchdog_->error(); }
  /// Looks also whether the ranks' calls agree.
  void compare() const { watchdog_->compare(); }
  /// By the thread that uses the communicator.
  void throw_if_broken() const {
    auto broken = error();
    if (!broken) return;
    bootstrap->abandon(broken->what());
    throw *std::move(broken);
  }
  void abort(std::string_view reason);
  Progress progress() const { return log_ ? log_->read() : Progress{}; }
  std::shared_ptr<TraceFile> trace_file() const { return trace_ ? trace_->file() : nullptr; }
  void adopt(const CommunicatorState& child) { watchdog_->add_child(child.watchdog_); }

  std::unique_ptr<Bootstrap> bootstrap;
  CommunicatorOptions made_with;
  Settings settings;
  std::shared_ptr<Backend> backend;
  CommunicatorOnDevice counted;
  SymmetricHeap heap;

 private:
  static std::vector<const Algorithm*> registered();
  static std::vector<std::string> names(const std::vector<const Algorithm*>& algorithms);
  void locate(Call& call, Buffers& buffers) const;
  std::string places(const Call& call, const Buffers& buffers) const;
  /// What is worth to be remembered of a call without options.
  struct Known {
    Choice choice;
    bool shares;
    const Algorithm* in_batch;  // for calls that are as long together
  };
  const Known& known(const Call& call);
  std::optional<PreparedCall> prepare(const Call& call, const void* send, void* recv, const CallOptions& options);
  std::size_t number_of(const Algorithm& algorithm) const;
  void enqueue(const PreparedCall& call, NativeStream stream);
  void enqueue(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps);
  Watch watch(std::uint64_t call, std::size_t algorithm) const;
  void start_log(std::shared_ptr<TraceFile> trace);
  void trace(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps, std::uint64_t first, bool captured);

  std::vector<const Algorithm*> algorithms_ = registered();  // a plug-in that is loaded later serves later communicators

 public:
  Selector selector;

 private:
  std::shared_ptr<Board> board_;
  std::unique_ptr<AlgorithmMemory> memory_;
  std::unique_ptr<BlockLog> log_;       // null: PLAIT_PROGRESS=0
  std::unique_ptr<Trace> trace_;        // null: no PLAIT_TRACE
  std::shared_ptr<Watchdog> watchdog_;  // its end waits for the kernels, which write the log
  StreamOrder order_;
  std::unique_ptr<SideStreams> sides_;
  EventQueue events_;
  std::unique_ptr<WorkMemory> work_;
  std::unique_ptr<Event> joined_;  // of the streams of a group
  Statistics statistics_;
  std::vector<Signature> signatures_;  // of a group's calls
  std::optional<Monitored> monitored_;

  struct CallHash {
    std::size_t operator()(const Call& call) const noexcept {
      const auto facts = (static_cast<std::size_t>(call.collective) << 16) | (static_cast<std::size_t>(call.type) << 8) |
                         (static_cast<std::size_t>(call.op) << 2) | (std::size_t{call.in_place} << 1) | std::size_t{call.symmetric};
      return (call.count * 0x9e3779b97f4a7c15u) ^ facts ^ (static_cast<std::size_t>(call.root) << 32);
    }
  };
  std::unordered_map<Call, Known, CallHash> known_;
};

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

CommunicatorState::CommunicatorState(std::unique_ptr<Bootstrap> b, const CommunicatorOptions& options, std::shared_ptr<TraceFile> trace)
    : bootstrap(std::move(b)),
      made_with(options),
      settings(agree_on_settings(*bootstrap, options)),
      backend(open_device(*bootstrap, options, settings)),
      counted(*backend),
      heap(backend, *bootstrap),
      selector(discover_topology(*bootstrap, *backend, settings), algorithms_),
      board_(std::make_shared<Board>(*bootstrap)),
      order_(backend),
      events_(backend) {
  agree(*bootstrap, "loading kernels", [&] { backend->load_kernels(); });
  memory_ = std::make_unique<AlgorithmMemory>(backend, *bootstrap, heap, selector.topology(), algorithms_);
  agree(*bootstrap, "creating the watchdog, work memory and streams", [&] {
    watchdog_ = std::make_shared<Watchdog>(backend, board_, names(algorithms_), memory_->claimed(), settings.timeout, bootstrap->rank());
    sides_ = std::make_unique<SideStreams>(backend);
    work_ = std::make_unique<WorkMemory>(backend, events_, settings.work_fifo_bytes, [this] { throw_if_broken(); });
    joined_ = backend->create_event(false);
    start_log(std::move(trace));
  });
  remember_device(*backend);
  if (bootstrap->size() > 1) monitored_.emplace([this] { watchdog_->look(); });
}

void CommunicatorState::start_log(std::shared_ptr<TraceFile> trace) {
  if (settings.trace && !trace) trace = TraceFile::open(*settings.trace, bootstrap->rank(), bootstrap->size());
  if (settings.progress) log_ = std::make_unique<BlockLog>(backend, trace != nullptr);
  if (!trace) return;
  const DeviceInfo& device = backend->info();
  trace_ = std::make_unique<Trace>(
      std::move(trace), *log_,
      fmt::format("rank {} of {}, {} device {}", bootstrap->rank(), bootstrap->size(), name_of(device.backend), device.ordinal),
      names(algorithms_), device.backend == BackendKind::host);
}

CommunicatorState::~CommunicatorState() {
  OpenGroup::of_thread().forget(*this);
  monitored_.reset();
  watchdog_->look();  // also what the monitor has not seen yet: the bootstrap must not wait for a rank that is lost
  board_->announce(Board::State::left);
  if (const auto broken = error()) bootstrap->abandon(broken->what());
}

void CommunicatorState::abort(std::string_view reason) {
  const int rank = bootstrap->rank();
  watchdog_->abort(ErrorCode::aborted, reason.empty() ? fmt::format("rank {} has aborted the communicator", rank)
                                                      : fmt::format("rank {} has aborted the communicator: {}", rank, reason));
}

/// Finds out whether the buffers that every rank has are symmetric memory.
void CommunicatorState::locate(Call& call, Buffers& buffers) const {
  const CollectiveFacts facts = facts_of(call.collective);
  std::shared_ptr<Window> send, recv;
  if (!facts.send.root_only && (send = heap.find(buffers.send, send_bytes(call))) == nullptr) return;
  if (!facts.recv.root_only && (recv = heap.find(buffers.recv, recv_bytes(call))) == nullptr) return;
  call.symmetric = true;
  const auto* from = static_cast<const std::byte*>(buffers.send);
  auto* to = static_cast<std::byte*>(buffers.recv);
  if (send) {
    buffers.send_range = &send->range();
    buffers.send_offset = static_cast<std::size_t>(from - send->local());
    buffers.send_window = send->view().at(buffers.send_offset);
  }
  if (recv) {
    buffers.recv_range = &recv->range();
    buffers.recv_offset = static_cast<std::size_t>(to - recv->local());
    buffers.recv_window = recv->view().at(buffers.recv_offset);
  }
  call.in_place = !facts.rooted && to == from + in_place_distance(call, bootstrap->rank());
}

/// Which symmetric memory a call is in, in words that are the same on all ranks.
std::string CommunicatorState::places(const Call& call, const Buffers& buffers) const {
  if (!call.symmetric) return "ordinary memory";
  const CollectiveFacts facts = facts_of(call.collective);
  if (facts.send.root_only) return heap.describe(buffers.recv);
  if (facts.recv.root_only) return heap.describe(buffers.send);
  return heap.describe(buffers.send) + ", " + heap.describe(buffers.recv);
}

const CommunicatorState::Known& CommunicatorState::known(const Call& call) {
  const auto found = known_.find(call);
  if (found != known_.end()) return found->second;
  if (known_.size() >= 4096) known_.clear();
  Choice choice = selector.choose(call, {});
  const bool shares = selector.gains_in_batch(call, choice);
  return known_.emplace(call, Known{std::move(choice), shares, selector.choose_batch(call)}).first->second;
}

/// Everything before the first word to the device. None: the call has nothing to do.
std::optional<PreparedCall> CommunicatorState::prepare(const Call& described, const void* send, void* recv, const CallOptions& options) {
  PreparedCall prepared;
  if (trace_) prepared.begin = std::chrono::steady_clock::now();
  Call& call = prepared.call;
  Buffers& buffers = prepared.buffers;
  call = described;
  const int rank = bootstrap->rank();
  call.parts = parts_of(call.collective, bootstrap->size());
  // What a rank need not have is not looked at.
  buffers.send = has(facts_of(call.collective).send, call, rank) ? send : nullptr;
  buffers.recv = has(facts_of(call.collective).recv, call, rank) ? recv : nullptr;
  if (settings.check_calls) {
    agree(*bootstrap, "PLAIT_CHECK", [&] {
      throw_if_broken();
      check_call(call, buffers, rank, bootstrap->size());
    });
  } else {
    check_call(call, buffers, rank, bootstrap->size());
    throw_if_broken();
  }
  if (call.count != 0) locate(call, buffers);
  if (settings.check_calls) check_agreement(*bootstrap, call, options, places(call, buffers));
  if (call.count == 0 && call.collective != Collective::barrier) {
    selector.check_known(call.collective, options);
    return std::nullopt;
  }
  const auto take = [&](const Choice& choice) {
    prepared.algorithm = choice.algorithm;
    prepared.shape = choice.shape;
    prepared.wished = choice.wished;
  };
  const bool shaped = options.blocks != 0 || options.threads != 0;
  if (shaped || !options.algorithm.empty()) {
    take(selector.choose(call, options));
    prepared.shares = !shaped && prepared.algorithm->batches(selector.topology());
  } else {
    const Known& remembered = known(call);
    take(remembered.choice);
    prepared.shares = remembered.shares;
  }
  if (trace_) prepared.end = std::chrono::steady_clock::now();
  return prepared;
}

Watch CommunicatorState::watch(std::uint64_t call, std::size_t algorithm) const {
  Watch watch = watchdog_->watch(call, static_cast<std::uint32_t>(algorithm));
  if (log_) log_->put_into(watch);
  return watch;
}

std::size_t CommunicatorState::number_of(const Algorithm& algorithm) const {
  return static_cast<std::size_t>(std::find(algorithms_.begin(), algorithms_.end(), &algorithm) - algorithms_.begin());
}

void CommunicatorState::call(const Call& call, const void* send, void* recv, StreamRef stream, const CallOptions& options) {
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open())
    return group.add(*this, stream.native(), [&] { return prepare(call, send, recv, options); });
  if (const auto prepared = prepare(call, send, recv, options)) enqueue(*prepared, stream.native());
}

void CommunicatorState::refuse(const Error& error) {
  OpenGroup& group = OpenGroup::of_thread();
  if (!group.is_open()) throw error;
  group.add(*this, nullptr, [&]() -> std::optional<PreparedCall> { throw error; });
}

void CommunicatorState::enqueue(const PreparedCall& prepared, NativeStream stream) {
  const Call& call = prepared.call;
  const std::size_t number = number_of(*prepared.algorithm);
  const Watch watch = this->watch(++statistics_.calls, number);
  board_->publish(statistics_.calls, Signature::of(call, number, prepared.shape));
  const DeviceScope device(*backend);
  const bool ordered = order_.enter(stream);
  const LaunchSetting setting{*backend, selector.topology(), bootstrap->rank(), *work_, statistics_};
  LaunchContext context(setting, stream, !ordered, sides_->of(!ordered), memory_->of(number), watch);
  prepared.algorithm->enqueue(call, prepared.buffers, prepared.shape, context);
  if (ordered) order_.leave(stream);
  if (trace_)
    trace_->add({.number = statistics_.calls,
                 .begin = prepared.begin,
                 .end = std::chrono::steady_clock::now(),
                 .call = call,
                 .algorithm = static_cast<std::uint32_t>(number),
                 .shape = prepared.shape,
                 .captured = !ordered});
}

bool CommunicatorState::is_capturing(NativeStream stream) {
  const DeviceScope device(*backend);
  return backend->is_capturing(stream);
}

std::function<void()> CommunicatorState::plan(std::vector<GroupedCall> calls) {
  throw_if_broken();
  check_disjoint(calls, bootstrap->rank());
  const bool one_stream =
      std::all_of(calls.begin(), calls.end(), [&](const GroupedCall& call) { return call.stream == calls.front().stream; });
  if (!one_stream && !backend->captures_spread() && is_capturing(calls.front().stream))
    throw Error(ErrorCode::unsupported, fmt::format("group: calls of one communicator are captured on several streams, which {} can't join",
                                                    name_of(backend->info().backend)));
  auto steps = plan_group(calls, [this](const Call& all) { return known(all).in_batch; });
  return [this, calls = std::move(calls), steps = std::move(steps)] { enqueue(calls, steps); };
}

/// All on the stream of the first call, which waits for the others; they wait for all.
void CommunicatorState::enqueue(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps) {
  // Numbered as they were made. That a call shares launches, and with how many, must be the same on all ranks, too.
  const std::uint64_t first = statistics_.calls + 1;
  signatures_.resize(calls.size());
  for (const GroupStep& step : steps) {
    const std::size_t number = number_of(*step.algorithm), company = step.calls.size();
    for (const std::size_t i : step.calls) {
      Signature signature = Signature::of(calls[i].call.call, number, company > 1 ? LaunchShape{} : step.shape);
      signature.options += company - 1;
      signatures_[i] = signature;
    }
  }
  for (const Signature& signature : signatures_) board_->publish(++statistics_.calls, signature);
  ++statistics_.groups;

  const DeviceScope device(*backend);
  const NativeStream stream = calls.front().stream;
  std::vector<NativeStream> others;
  for (const GroupedCall& call : calls)
    if (call.stream != stream && std::find(others.begin(), others.end(), call.stream) == others.end()) others.push_back(call.stream);
  const bool ordered = order_.enter(stream);
  for (const NativeStream other : others) {
    joined_->record(other);
    joined_->wait_in(stream);
  }
  const LaunchSetting setting{*backend, selector.topology(), bootstrap->rank(), *work_, statistics_};
  std::vector<BatchedCall> batch;
  for (const GroupStep& step : steps) {
    const std::size_t number = number_of(*step.algorithm);
    const Watch watch = this->watch(first + step.calls.front(), number);
    LaunchContext context(setting, stream, !ordered, sides_->of(!ordered), memory_->of(number), watch);
    const PreparedCall& call = calls[step.calls.front()].call;
    if (step.calls.size() == 1) {
      step.algorithm->enqueue(call.call, call.buffers, step.shape, context);
      continue;
    }
    batch.clear();
    for (const std::size_t i : step.calls) batch.push_back({&calls[i].call.call, &calls[i].call.buffers});
    step.algorithm->enqueue_batch(batch, context);
    statistics_.batched += step.calls.size();
  }
  for (const NativeStream other : others) {
    joined_->record(stream);
    joined_->wait_in(other);
  }
  if (ordered) order_.leave(stream);
  if (trace_) trace(calls, steps, first, !ordered);
}

/// Of a group's calls, the time in which each was prepared; in the order of their numbers.
void CommunicatorState::trace(const std::vector<GroupedCall>& calls, const std::vector<GroupStep>& steps, std::uint64_t first,
                              bool captured) {
  std::vector<const GroupStep*> step_of(calls.size());
  for (const GroupStep& step : steps)
    for (const std::size_t i : step.calls) step_of[i] = &step;
  for (std::size_t i = 0; i < calls.size(); ++i)
    trace_->add({.number = first + i,
                 .begin = calls[i].call.begin,
                 .end = calls[i].call.end,
                 .call = calls[i].call.call,
                 .algorithm = static_cast<std::uint32_t>(number_of(*step_of[i]->algorithm)),
                 .shape = step_of[i]->shape,
                 .captured = captured});
}

void CommunicatorState::synchronize(StreamRef stream) {
  if (OpenGroup::of_thread().has_calls_of(*this))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("synchronize: rank {}: this communicator has calls in a group that has not ended: nothing would wait for them",
                            bootstrap->rank()));
  const DeviceScope device(*backend);
  backend->synchronize(stream.native());
  compare();
  throw_if_broken();
}

Statistics CommunicatorState::statistics() const {
  Statistics statistics = work_->statistics();
  statistics.calls = statistics_.calls;
  statistics.launches = statistics_.launches;
  statistics.groups = statistics_.groups;
  statistics.batched = statistics_.batched;
  return statistics;
}

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::~Communicator() = default;
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;

Communicator Communicator::from_mpi(MPI_Comm comm, const CommunicatorOptions& options) { return create(make_mpi_bootstrap(comm), options); }

Communicator Communicator::create(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options) {
  Communicator comm(std::make_unique<CommunicatorState>(std::move(bootstrap), options));
  log::info("{}", comm.describe());
  return comm;
}

std::optional<Communicator> Communicator::split(int color, int key) {
  state_->throw_if_broken();
  auto group = state_->bootstrap->split(color, key);
  if (color < 0) return std::nullopt;
  CommunicatorOptions options = state_->made_with;
  options.backend = backend_kind();
  options.device = state_->backend->info().ordinal;
  options.timeout = state_->settings.timeout;
  Communicator part(std::make_unique<CommunicatorState>(std::move(group), options, state_->trace_file()));
  log::info("{}", part.describe());
  state_->adopt(*part.state_);
  return part;
}

Communicator Communicator::duplicate() { return *split(0, rank()); }

int Communicator::rank() const noexcept { return state_->bootstrap->rank(); }
int Communicator::size() const noexcept { return state_->bootstrap->size(); }
BackendKind Communicator::backend_kind() const noexcept { return state_->backend->info().backend; }
Backend& Communicator::backend() const noexcept { return *state_->backend; }
Bootstrap& Communicator::bootstrap() const noexcept { return *state_->bootstrap; }

std::string Communicator::describe() const {
  const DeviceInfo& info = state_->backend->info();
  return fmt::format("rank {} of {}: {} device {}, {} ({}){}", rank(), size(), name_of(info.backend), info.ordinal, info.name,
                     info.architecture, info.facts.peer_access ? "" : ", peers through host memory");
}

std::shared_ptr<Window> Communicator::allocate_bytes(std::size_t bytes) {
  state_->throw_if_broken();
  const DeviceScope device(*state_->backend);
  return state_->heap.allocate(bytes);
}

void Communicator::check_extents(Collective collective, std::size_t send, std::size_t recv, std::size_t count) const {
  const CollectiveFacts facts = facts_of(collective);
  const auto wanted = [&](const BufferFacts& buffer) {
    return buffer.size == BufferFacts::Size::one_a_rank ? count * static_cast<std::size_t>(size()) : count;
  };
  const bool send_fits = send == wanted(facts.send) || (facts.send.root_only && send == 0);
  const bool recv_fits = recv == wanted(facts.recv) || (facts.recv.root_only && recv == 0);
  if (send_fits && recv_fits) return;
  state_->refuse(Error(ErrorCode::invalid_argument,
                       fmt::format("{}: rank {}: send has {} elements, recv {}: with blocks of {} they must be {} and {}",
                                   name_of(collective), rank(), send, recv, count, wanted(facts.send), wanted(facts.recv))));
}

void Communicator::enqueue(const Call& call, const void* send, void* recv, StreamRef stream, const CallOptions& options) {
  if (!is_valid(call.collective))
    state_->refuse(
        Error(ErrorCode::invalid_argument, fmt::format("rank {}: {} is no collective", rank(), static_cast<int>(call.collective))));
  Call wanted = call;
  wanted.symmetric = wanted.in_place = false;
  wanted.scale = options.scale;
  if (!facts_of(call.collective).reduces) wanted.op = ReduceOp::sum, wanted.scale = 1;
  if (!facts_of(call.collective).rooted) wanted.root = 0;
  if (call.collective == Collective::barrier) wanted.type = DataType::u8, wanted.count = 0;
  state_->call(wanted, send, recv, stream, options);
}

void Communicator::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, StreamRef stream,
                              const CallOptions& options) {
  enqueue({.collective = Collective::all_reduce, .type = type, .op = op, .count = count}, send, recv, stream, options);
}
void Communicator::reduce_scatter(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, StreamRef stream,
                                  const CallOptions& options) {
  enqueue({.collective = Collective::reduce_scatter, .type = type, .op = op, .count = count}, send, recv, stream, options);
}
void Communicator::all_gather(const void* send, void* recv, std::size_t count, DataType type, StreamRef stream,
                              const CallOptions& options) {
  enqueue({.collective = Collective::all_gather, .type = type, .count = count}, send, recv, stream, options);
}
void Communicator::broadcast(const void* send, void* recv, std::size_t count, DataType type, int root, StreamRef stream,
                             const CallOptions& options) {
  enqueue({.collective = Collective::broadcast, .type = type, .count = count, .root = root}, send, recv, stream, options);
}
void Communicator::reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, int root, StreamRef stream,
                          const CallOptions& options) {
  enqueue({.collective = Collective::reduce, .type = type, .op = op, .count = count, .root = root}, send, recv, stream, options);
}
void Communicator::all_to_all(const void* send, void* recv, std::size_t count, DataType type, StreamRef stream,
                              const CallOptions& options) {
  enqueue({.collective = Collective::all_to_all, .type = type, .count = count}, send, recv, stream, options);
}
void Communicator::gather(const void* send, void* recv, std::size_t count, DataType type, int root, StreamRef stream,
                          const CallOptions& options) {
  enqueue({.collective = Collective::gather, .type = type, .count = count, .root = root}, send, recv, stream, options);
}
void Communicator::scatter(const void* send, void* recv, std::size_t count, DataType type, int root, StreamRef stream,
                           const CallOptions& options) {
  enqueue({.collective = Collective::scatter, .type = type, .count = count, .root = root}, send, recv, stream, options);
}
void Communicator::barrier(StreamRef stream) { enqueue({.collective = Collective::barrier}, nullptr, nullptr, stream); }

void Communicator::synchronize(StreamRef stream) { state_->synchronize(stream); }
Statistics Communicator::statistics() const { return state_->statistics(); }

std::optional<Error> Communicator::async_error() const {
  state_->compare();
  return state_->error();
}
void Communicator::abort(std::string_view reason) { state_->abort(reason); }
Progress Communicator::progress() const { return state_->progress(); }

Stream Communicator::create_stream() {
  const DeviceScope device(*state_->backend);
  return Stream(state_->backend);
}

void Communicator::copy(void* to, const void* from, std::size_t bytes, StreamRef stream) {
  const DeviceScope device(*state_->backend);
  state_->backend->copy(to, from, bytes, stream.native());
}

std::string Communicator::explain(const Call& call, const CallOptions& options) const {
  return state_->selector.explain(completed(call), options);
}
std::string Communicator::chosen(const Call& call, const CallOptions& options) const {
  return std::string(state_->selector.choose(completed(call), options).algorithm->name());
}
Call Communicator::completed(Call call) const {
  call.parts = parts_of(call.collective, size());
  return call;
}
bool Communicator::is_symmetric(const void* pointer, std::size_t bytes) const { return state_->heap.find(pointer, bytes) != nullptr; }

namespace detail {

void* local_pointer(const Window& window) { return window.local(); }

std::size_t checked_bytes(std::size_t count, std::size_t size, const char* call) {
  if (count > std::numeric_limits<std::size_t>::max() / size)
    throw Error(ErrorCode::invalid_argument, fmt::format("{}: {} elements of {} bytes overflow", call, count, size));
  return count * size;
}

}  // namespace detail
}  // namespace plait
