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
#include "core/log.hpp"
#include "core/monitor.hpp"
#include "core/progress.hpp"
#include "core/selection.hpp"
#include "core/setup.hpp"
#include "core/side_stream.hpp"
#include "core/stream_order.hpp"
#include "core/trace.hpp"
#include "core/watchdog.hpp"
#include "core/workspace.hpp"
#include "symm_mem/agreement.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Everything a communicator owns. Members are destroyed in reverse: memory before the device it lies on, that before the bootstrap.
class CommunicatorState {
 public:
  /// `trace`: the file of the communicator that this one is a part of, if it has one.
  CommunicatorState(std::unique_ptr<Bootstrap> bootstrap, const CommunicatorOptions& options, std::shared_ptr<TraceFile> trace = nullptr);

  void enqueue(const Call& call, const void* send, void* recv, StreamRef stream, const CallOptions& options);
  ~CommunicatorState();

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
  SymmetricHeap heap;

 private:
  static std::vector<const Algorithm*> registered();
  static std::vector<std::string> names(const std::vector<const Algorithm*>& algorithms);
  void locate(Call& call, Buffers& buffers) const;
  const Choice& chosen(const Call& call);
  void start_log(std::shared_ptr<TraceFile> trace);

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
  std::uint64_t calls_ = 0;
  std::optional<Monitored> monitored_;

  struct CallHash {
    std::size_t operator()(const Call& call) const noexcept {
      const auto facts = (static_cast<std::size_t>(call.collective) << 16) | (static_cast<std::size_t>(call.type) << 8) |
                         (static_cast<std::size_t>(call.op) << 2) | (std::size_t{call.in_place} << 1) | std::size_t{call.symmetric};
      return (call.count * 0x9e3779b97f4a7c15u) ^ facts;
    }
  };
  std::unordered_map<Call, Choice, CallHash> choices_;  // of calls without options
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
      backend(open_device(*bootstrap, options)),
      heap(backend, *bootstrap),
      selector(discover_topology(*bootstrap, *backend, settings), algorithms_),
      board_(std::make_shared<Board>(*bootstrap)),
      order_(backend) {
  agree(*bootstrap, "loading kernels", [&] { backend->load_kernels(); });
  memory_ = std::make_unique<AlgorithmMemory>(backend, *bootstrap, heap, selector.topology(), algorithms_);
  agree(*bootstrap, "creating the watchdog and streams", [&] {
    watchdog_ = std::make_shared<Watchdog>(backend, board_, names(algorithms_), memory_->claimed(), settings.timeout, bootstrap->rank());
    sides_ = std::make_unique<SideStreams>(backend);
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

/// Finds out whether both buffers are symmetric memory.
void CommunicatorState::locate(Call& call, Buffers& buffers) const {
  const auto send = heap.find(buffers.send, call.bytes()), recv = heap.find(buffers.recv, call.bytes());
  if (!send || !recv) return;
  call.symmetric = true;
  call.in_place = buffers.send == buffers.recv;
  buffers.send_window = send->view().at(static_cast<std::size_t>(static_cast<const std::byte*>(buffers.send) - send->local()));
  buffers.recv_range = &recv->range();
  buffers.recv_offset = static_cast<std::size_t>(static_cast<std::byte*>(buffers.recv) - recv->local());
  buffers.recv_window = recv->view().at(buffers.recv_offset);
}

const Choice& CommunicatorState::chosen(const Call& call) {
  const auto known = choices_.find(call);
  if (known != choices_.end()) return known->second;
  if (choices_.size() >= 4096) choices_.clear();
  return choices_.emplace(call, selector.choose(call, {})).first->second;
}

void CommunicatorState::enqueue(const Call& described, const void* send, void* recv, StreamRef stream, const CallOptions& options) {
  const auto begin = trace_ ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point{};
  Call call = described;
  Buffers buffers;
  buffers.send = send;
  buffers.recv = recv;
  if (settings.check_calls) {
    agree(*bootstrap, "PLAIT_CHECK", [&] {
      throw_if_broken();
      check_call(call, buffers, bootstrap->rank());
    });
  } else {
    check_call(call, buffers, bootstrap->rank());
    throw_if_broken();
  }
  if (call.count != 0) locate(call, buffers);
  if (settings.check_calls)
    check_agreement(*bootstrap, call, options, call.symmetric ? heap.describe(send) + ", " + heap.describe(recv) : "ordinary memory");
  if (call.count == 0 && call.collective != Collective::barrier) {
    selector.check_known(call.collective, options);
    return;
  }
  const bool plain = options.algorithm.empty() && options.blocks == 0 && options.threads == 0;
  const Choice choice = plain ? chosen(call) : selector.choose(call, options);

  const auto index = static_cast<std::size_t>(std::find(algorithms_.begin(), algorithms_.end(), choice.algorithm) - algorithms_.begin());
  Watch watch = watchdog_->watch(++calls_, static_cast<std::uint32_t>(index));
  if (log_) log_->put_into(watch);
  board_->publish(calls_, Signature::of(call, index, choice.shape));
  const DeviceScope device(*backend);
  const bool ordered = order_.enter(stream.native());
  LaunchContext context(*backend, stream.native(), sides_->of(!ordered), selector.topology(), bootstrap->rank(), memory_->of(index), watch);
  choice.algorithm->enqueue(call, buffers, choice.shape, context);
  if (ordered) order_.leave(stream.native());
  if (trace_)
    trace_->add({.number = calls_,
                 .begin = begin,
                 .end = std::chrono::steady_clock::now(),
                 .call = call,
                 .algorithm = static_cast<std::uint32_t>(index),
                 .shape = choice.shape,
                 .captured = !ordered});
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
  return fmt::format("rank {} of {}: {} device {}, {} ({})", rank(), size(), name_of(info.backend), info.ordinal, info.name,
                     info.architecture);
}

std::shared_ptr<Window> Communicator::allocate_bytes(std::size_t bytes) {
  state_->throw_if_broken();
  const DeviceScope device(*state_->backend);
  return state_->heap.allocate(bytes);
}

void Communicator::check_extents(std::size_t send, std::size_t recv) const {
  if (send != recv)
    throw Error(ErrorCode::invalid_argument, fmt::format("all_reduce: rank {}: send has {} elements, recv {}", rank(), send, recv));
}

void Communicator::all_reduce(const void* send, void* recv, std::size_t count, DataType type, ReduceOp op, StreamRef stream,
                              const CallOptions& options) {
  const Call call{.collective = Collective::all_reduce, .type = type, .op = op, .count = count, .symmetric = false, .scale = options.scale};
  state_->enqueue(call, send, recv, stream, options);
}

void Communicator::barrier(StreamRef stream) {
  const Call call{.collective = Collective::barrier, .type = DataType::u8, .op = ReduceOp::sum, .count = 0, .symmetric = false, .scale = 1};
  state_->enqueue(call, nullptr, nullptr, stream, {});
}

void Communicator::synchronize(StreamRef stream) {
  const DeviceScope device(*state_->backend);
  state_->backend->synchronize(stream.native());
  state_->compare();
  state_->throw_if_broken();
}

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

std::string Communicator::explain(const Call& call, const CallOptions& options) const { return state_->selector.explain(call, options); }
std::string Communicator::chosen(const Call& call, const CallOptions& options) const {
  return std::string(state_->selector.choose(call, options).algorithm->name());
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
