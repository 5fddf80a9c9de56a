#include "plait/communicator.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "core/collectives.hpp"
#include "core/communicator_state.hpp"
#include "core/log.hpp"
#include "symm_mem/window.hpp"

namespace plait {

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::~Communicator() = default;
GroupMember& Communicator::member() const noexcept { return *state_; }
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
  options.timeout = state_->settings.timeout;
  Communicator part(std::make_unique<CommunicatorState>(std::move(group), options, state_.get()));
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
  if (const auto wrong = plait::check_extents(collective, send, recv, count, rank(), size())) state_->refuse(*wrong);
}

void Communicator::enqueue(const Call& call, const void* send, void* recv, StreamRef stream, const CallOptions& options) {
  if (call.collective == Collective::send_recv) {
    CallOptions symmetric = options;
    symmetric.symmetric = symmetric.symmetric || (is_valid(call.type) && is_symmetric(recv, call.block_bytes()));
    return send_recv(send, call.count, (rank() + 1) % size(), recv, call.count, (rank() + size() - 1) % size(), call.type, stream,
                     symmetric);
  }
  state_->call(call, send, recv, stream, options);
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
void Communicator::send(const void* data, std::size_t count, DataType type, int to, StreamRef stream, const CallOptions& options) {
  const MessageEnd end{.sends = true, .peer = to, .buffer = const_cast<void*>(data), .count = count};
  state_->messages("send", type, {&end, 1}, stream, options);
}
void Communicator::recv(void* data, std::size_t count, DataType type, int from, StreamRef stream, const CallOptions& options) {
  const MessageEnd end{.sends = false, .peer = from, .buffer = data, .count = count};
  state_->messages("recv", type, {&end, 1}, stream, options);
}
void Communicator::send_recv(const void* send, std::size_t send_count, int to, void* recv, std::size_t recv_count, int from, DataType type,
                             StreamRef stream, const CallOptions& options) {
  void* const receiver = options.symmetric ? recv : nullptr;
  const std::array<MessageEnd, 2> ends{
      {{.sends = true, .peer = to, .buffer = const_cast<void*>(send), .count = send_count, .receiver = receiver},
       {.sends = false, .peer = from, .buffer = recv, .count = recv_count, .receiver = receiver}}};
  state_->messages("send_recv", type, ends, stream, options);
}
void Communicator::all_to_all_v(const void* send, const BlocksOf& sent, void* recv, const BlocksOf& received, DataType type,
                                StreamRef stream, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(size());
  for (const auto& [what, values] : {std::pair("send counts", sent.counts), std::pair("send displacements", sent.displacements),
                                     std::pair("recv counts", received.counts), std::pair("recv displacements", received.displacements)})
    if (values.size() != ranks)
      return state_->refuse(Error(ErrorCode::invalid_argument,
                                  fmt::format("all_to_all_v: rank {}: {} {}, with {} ranks", rank(), values.size(), what, ranks)));
  if (!is_valid(type))
    return state_->refuse(
        Error(ErrorCode::invalid_argument, fmt::format("all_to_all_v: rank {}: {} is no data type", rank(), static_cast<int>(type))));
  std::vector<MessageEnd> ends;
  ends.reserve(2 * ranks);
  for (const bool sends : {true, false}) {
    const BlocksOf& blocks = sends ? sent : received;
    auto* const buffer = static_cast<std::byte*>(sends ? const_cast<void*>(send) : recv);
    for (std::size_t peer = 0; peer < ranks; ++peer) {
      const std::size_t at = blocks.displacements[peer], count = blocks.counts[peer];
      if (count == 0) continue;
      // Beyond any memory, as a count is that is refused.
      if (at > std::numeric_limits<std::size_t>::max() / 4 / size_of(type))
        return state_->refuse(Error(ErrorCode::invalid_argument,
                                    fmt::format("all_to_all_v: rank {}: displacement {} of {} overflows", rank(), at, name_of(type))));
      ends.push_back({.sends = sends,
                      .peer = static_cast<int>(peer),
                      .buffer = buffer == nullptr ? nullptr : buffer + at * size_of(type),
                      .count = count});
    }
  }
  state_->messages("all_to_all_v", type, ends, stream, options);
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
