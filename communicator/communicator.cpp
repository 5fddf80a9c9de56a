#include "plait/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "communicator/calls/call_checks.hpp"
#include "communicator/communicator_state.hpp"
#include "communicator/event.hpp"
#include "communicator/groups/open_group.hpp"
#include "communicator/messages/vector_calls.hpp"
#include "core/float_environment.hpp"
#include "plait/collective_table.h"

namespace plait {

const CommunicatorState& Communicator::member_of(std::string_view call) const {
  if (state_ == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this communicator was moved from", call));
  return *state_;
}
CommunicatorState& Communicator::state(std::string_view call) const {
  member_of(call).resources.origin.require(call, "communicator");
  return *state_;
}

/// For calls that one thread at a time may make: refuses other threads as long as it lives.
class Communicator::Inside {
 public:
  Inside(const Communicator& comm, std::string_view call)
      : state_(comm.state(call)), scope_(state_.resources.in_use, call) {}
  CommunicatorState* operator->() const { return &state_; }

  /// Sends and receives these messages.
  void send(std::string_view what, DataType type, std::span<const MessageEnd> ends,
            StreamRef stream, const CallOptions& options, const CallByAll* by_all = nullptr) const {
    const bool has_ended =
        state_.messages.call(what,
                             {.call = {.collective = Collective::send_recv, .type = type},
                              .ends = ends,
                              .options = options},
                             stream, by_all);
    if (!has_ended) end(stream, options);
  }
  /// The end of a call. In a group, one that blocks has been refused.
  void end(StreamRef stream, const CallOptions& options) const {
    if (options.blocking && !OpenGroup::of_thread().is_open()) state_.synchronize(stream);
  }

 private:
  CommunicatorState& state_;
  InUse::Scope scope_;
};

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::~Communicator() {
  if (state_ != nullptr && !state_->resources.origin.is_here()) keep_for_ever(std::move(state_));
  const FloatEnvironment defaults;  // a GPU's driver frees memory here
  state_.reset();
}
GroupMember& Communicator::member() const { return state("group").path; }
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator before(std::move(other));
  std::swap(state_, before.state_);  // `before` destroys what was here
  return *this;
}

int Communicator::rank() const { return member_of("rank").resources.rank(); }
int Communicator::size() const { return member_of("size").resources.size(); }
BackendKind Communicator::backend_kind() const {
  return state("backend_kind").resources.backend->info().backend;
}
Backend& backend_of(const Communicator& comm) { return *comm.state("backend").resources.backend; }
const Selector& selector_of(const Communicator& comm) {
  return comm.state("selector").resources.selector;
}
Bootstrap& Communicator::bootstrap() const { return *state("bootstrap").resources.bootstrap; }

std::string Communicator::describe() const {
  const CommunicatorResources& own = state("describe").resources;
  const DeviceInfo& info = own.backend->info();
  return fmt::format("rank {} of {}: {} device {}, {} ({}){}{}", rank(), size(),
                     name_of(info.backend), info.ordinal, info.name, info.architecture,
                     info.facts.peer_access ? "" : ", peers through host memory",
                     own.other_nodes ? own.other_nodes->describe(own.selector.topology()) : "");
}

std::shared_ptr<Window> Communicator::allocate_bytes(std::size_t bytes) {
  const Inside own(*this, "allocate");
  own->faults.throw_if_broken();
  const DeviceScope device(*own->resources.backend);
  return own->resources.heap.allocate(bytes);
}

void Communicator::reserve() { Inside(*this, "reserve")->reserve(); }

bool Communicator::extents_fit(Collective collective, std::size_t send, std::size_t recv,
                               std::size_t count, int root) const {
  const Inside own(*this, name_of(collective));
  const auto wrong = check_extents(collective, send, recv, count, rank(), size(), root);
  if (wrong) own->path.refuse(*wrong, {.collective = send != 0 || recv != 0}, true);
  return !wrong;
}

bool Communicator::blocks_fit(std::string_view what, std::string_view buffer, std::size_t size,
                              const BlocksOf& blocks, const Peers* peers) const {
  const Inside own(*this, what);
  const auto& [counts, displacements] = blocks;
  const std::span<const int> owners = peers == nullptr   ? std::span<const int>()
                                      : buffer == "send" ? peers->to
                                                         : peers->from;
  if (counts.size() != displacements.size() || (peers != nullptr && owners.size() != counts.size()))
    return true;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const int peer = peers != nullptr ? owners[i] : static_cast<int>(i);
    const std::size_t begin = displacements[i], count = counts[i];
    if (peer == proc_null || count == 0 || (begin <= size && count <= size - begin)) continue;
    own->path.refuse(
        Error(ErrorCode::invalid_argument,
              fmt::format("{}: rank {}: {} has {} elements, and the block of rank {} is {} "
                          "from element {} on",
                          what, rank(), buffer, size, peer, count, begin)),
        peers != nullptr ? RefusedNumbers::of_messages(peers->to, peers->from)
                         : RefusedNumbers::of_all_messages(),
        peers == nullptr);
    return false;
  }
  return true;
}

bool Communicator::counts_fit(std::string_view what, std::size_t send,
                              std::span<const std::size_t> counts, std::size_t recv) const {
  const Inside own(*this, what);
  const auto ranks = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
  if (counts.size() != ranks) return true;
  const std::size_t sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  std::string why;
  if (send != sum)
    why = fmt::format("send has {} elements, and the counts add up to {}", send, sum);
  else if (recv != counts[mine])
    why = fmt::format("recv has {} elements, and the count of rank {} is {}", recv, mine,
                      counts[mine]);
  if (!why.empty())
    own->path.refuse(
        Error(ErrorCode::invalid_argument, fmt::format("{}: rank {}: {}", what, mine, why)),
        {.collective = sum != 0}, true);
  return why.empty();
}

void Communicator::refuse(const Error& error, const Call& call) {
  const bool messages = call.collective == Collective::send_recv && call.count != 0;
  Inside(*this, "refuse")
      ->path.refuse(error, messages ? RefusedNumbers::of_all_messages() : RefusedNumbers::of(call));
}
void Communicator::refuse(const Error& error, const Peers& peers) {
  Inside(*this, "refuse")->path.refuse(error, RefusedNumbers::of_messages(peers.to, peers.from));
}

void Communicator::enqueue(const Call& call, const void* send, void* recv, StreamRef stream,
                           const CallOptions& options) {
  if (call.collective == Collective::send_recv) {
    CallOptions symmetric = options;
    symmetric.symmetric =
        symmetric.symmetric || (is_valid(call.type) && is_symmetric(recv, call.block_bytes()));
    return send_recv(send, call.count, (rank() + 1) % size(), recv, call.count,
                     (rank() + size() - 1) % size(), call.type, stream, symmetric);
  }
  const Inside own(*this, name_of(call.collective));
  if (!own->collectives.call({.call = call, .send = send, .recv = recv, .options = options},
                             stream))
    own.end(stream, options);
}

void Communicator::reduce_on_host(Collective collective, const void* send, void* recv,
                                  std::size_t count, const HostOperation& op, int root,
                                  StreamRef stream, std::size_t elements) {
  Inside(*this, name_of(collective))
      ->host_reducer.reduce({collective, send, recv, count, op, root}, elements, stream);
}

// A designated initialiser names the members in their order in Call.
#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                                    \
  void Communicator::NAME(const void* send, void* recv, std::size_t count, DataType type,       \
                          PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, )              \
                              StreamRef stream,                                                 \
                          const CallOptions& options) {                                         \
    enqueue({.collective = Collective::NAME,                                                    \
             .type = type,                                                                      \
             PLAIT_IF_##OP(.op = op, ).count = count,                                           \
             PLAIT_IF_##ROOT(.root = root)},                                                    \
            send, recv, stream, options);                                                       \
  }                                                                                             \
  PLAIT_IF_##OP(void Communicator::NAME(const void* send, void* recv, std::size_t count,        \
                                        const HostOperation& op,                                \
                                        PLAIT_IF_##ROOT(int root, ) StreamRef stream) {         \
    reduce_on_host(Collective::NAME, send, recv, count, op, PLAIT_IF_##ROOT(root +) 0, stream); \
  })
PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

void Communicator::send(const void* data, std::size_t count, DataType type, int to,
                        StreamRef stream, const CallOptions& options) {
  const MessageEnd end{
      .sends = true, .peer = to, .buffer = const_cast<void*>(data), .count = count};
  Inside(*this, "send").send("send", type, {&end, 1}, stream, options);
}
void Communicator::recv(void* data, std::size_t count, DataType type, int from, StreamRef stream,
                        const CallOptions& options) {
  const MessageEnd end{.sends = false, .peer = from, .buffer = data, .count = count};
  Inside(*this, "recv").send("recv", type, {&end, 1}, stream, options);
}
void Communicator::send_recv(const void* send, std::size_t send_count, int to, void* recv,
                             std::size_t recv_count, int from, DataType type, StreamRef stream,
                             const CallOptions& options) {
  void* const receiver = options.symmetric ? recv : nullptr;
  const std::array<MessageEnd, 2> ends{
      {{.sends = true,
        .peer = to,
        .buffer = const_cast<void*>(send),
        .count = send_count,
        .receiver = receiver},
       {.sends = false, .peer = from, .buffer = recv, .count = recv_count, .receiver = receiver}}};
  Inside(*this, "send_recv").send("send_recv", type, ends, stream, options);
}

/// `make_ends(VectorCall)` checks the arguments, and says what this rank sends and receives.
/// `by_all`: as MessageCalls::call.
template <class MakeEnds>
void Communicator::by_messages(std::string_view what, DataType type, const MakeEnds& make_ends,
                               StreamRef stream, const CallOptions& options,
                               const CallByAll* by_all, const Peers& peers) {
  const Inside own(*this, what);
  VectorCall::Ends ends;
  try {
    ends = make_ends(VectorCall(what, type, rank(), size()));
  } catch (const Error& error) {
    return own->path.refuse(error,
                            by_all != nullptr ? RefusedNumbers::of_all_messages()
                                              : RefusedNumbers::of_messages(peers.to, peers.from),
                            by_all != nullptr);
  }
  own.send(what, type, ends, stream, options, by_all);
}

void Communicator::all_to_all_v(const void* send, const BlocksOf& sent, void* recv,
                                const BlocksOf& received, DataType type, StreamRef stream,
                                const CallOptions& options) {
  const CallByAll by_all;
  by_messages("all_to_all_v", type,
              [&](const VectorCall& call) { return call.all_to_all(send, sent, recv, received); },
              stream, options, &by_all, {});
}
void Communicator::all_gather_v(const void* send, std::size_t count, void* recv,
                                const BlocksOf& received, DataType type, StreamRef stream,
                                const CallOptions& options) {
  const CallByAll by_all;
  by_messages("all_gather_v", type,
              [&](const VectorCall& call) { return call.all_gather(send, count, recv, received); },
              stream, options, &by_all, {});
}
void Communicator::gather_v(const void* send, std::size_t count, void* recv,
                            const BlocksOf& received, DataType type, int root, StreamRef stream,
                            const CallOptions& options) {
  const CallByAll by_all{.root = root};
  by_messages(
      "gather_v", type,
      [&](const VectorCall& call) { return call.gather(send, count, recv, received, root); },
      stream, options, &by_all, {});
}
void Communicator::scatter_v(const void* send, const BlocksOf& sent, void* recv, std::size_t count,
                             DataType type, int root, StreamRef stream,
                             const CallOptions& options) {
  const CallByAll by_all{.root = root};
  by_messages("scatter_v", type,
              [&](const VectorCall& call) { return call.scatter(send, sent, recv, count, root); },
              stream, options, &by_all, {});
}
void Communicator::reduce_scatter_v(const void* send, std::span<const std::size_t> counts,
                                    void* recv, DataType type, ReduceOp op, StreamRef stream,
                                    const CallOptions& options) {
  constexpr std::string_view what = "reduce_scatter_v";
  const Inside own(*this, what);
  CallOptions of_each = options;
  of_each.blocking = false;
  std::vector<Request> requests;
  try {
    requests =
        VectorCall(what, type, rank(), size()).reduce_scatter(send, counts, recv, op, of_each);
    if (options.blocking) own->path.preparer().check_may_block(what, stream.native());
  } catch (const Error& error) {
    const bool any = std::any_of(counts.begin(), counts.end(), [](auto n) { return n != 0; });
    return own->path.refuse(error, {.collective = any}, true);
  }
  own->collectives.calls(what, requests, stream);
  own.end(stream, options);
}
void Communicator::neighbor_all_to_all_v(const void* send, const NeighborBlocks& sent, void* recv,
                                         const NeighborBlocks& received, DataType type,
                                         StreamRef stream, const CallOptions& options) {
  by_messages(
      "neighbor_all_to_all_v", type,
      [&](const VectorCall& call) { return call.neighbor_all_to_all(send, sent, recv, received); },
      stream, options, nullptr, {sent.peers, received.peers});
}
void Communicator::barrier(StreamRef stream, const CallOptions& options) {
  enqueue({.collective = Collective::barrier}, nullptr, nullptr, stream, options);
}

void Communicator::synchronize(StreamRef stream) {
  Inside(*this, "synchronize")->synchronize(stream);
}
bool Communicator::test(StreamRef stream) { return Inside(*this, "test")->test(stream); }
std::size_t Communicator::wait_any(std::span<const StreamRef> streams) {
  return Inside(*this, "wait_any")->wait_any(streams);
}
Statistics Communicator::statistics() const {
  const CommunicatorState& own = state("statistics");
  own.resources.in_use.look("statistics");
  return own.path.statistics();
}

std::optional<Error> Communicator::async_error() const {
  const CommunicatorState& own = state("async_error");
  own.resources.watchdog->compare();
  return own.faults.tell_error();
}
void Communicator::abort(std::string_view reason) { state("abort").faults.abort(reason); }
Progress Communicator::progress() const {
  const auto& log = state("progress").resources.log;
  return log ? log->read() : Progress{};
}

Stream Communicator::create_stream() {
  const std::shared_ptr<Backend>& backend = state("create_stream").resources.backend;
  const DeviceScope device(*backend);
  return Stream(backend);
}

Event Communicator::create_event() { return make_event(state("create_event").resources.backend); }
Event Communicator::wrap_event(void* native) {
  return find_event(state("wrap_event").resources.backend, native);
}

void Communicator::copy(void* to, const void* from, std::size_t bytes, StreamRef stream) {
  Inside(*this, "copy")->copy(to, from, bytes, stream);
}

std::string Communicator::explain(const Call& call, const CallOptions& options) const {
  const FloatEnvironment defaults;
  return state("explain").resources.selector.explain(completed(call, options), options);
}
std::string Communicator::chosen(const Call& call, const CallOptions& options) const {
  const FloatEnvironment defaults;
  return std::string(state("chosen")
                         .resources.selector.choose(completed(call, options), options)
                         .algorithm->name());
}
Call Communicator::completed(const Call& call, const CallOptions& options) const {
  Call made = described(call, options, rank(), size());
  made.symmetric = call.symmetric || options.symmetric;
  made.in_place = call.in_place;
  check_facts(made, options, rank(), size());
  return in_words(made);
}
bool Communicator::is_symmetric(const void* pointer, std::size_t bytes) const {
  const CommunicatorResources& own = state("is_symmetric").resources;
  own.in_use.look("is_symmetric");
  return own.heap.find(pointer, bytes) != nullptr;
}

namespace detail {

void* local_pointer(const Window& window) { return window.local(); }

}  // namespace detail
}  // namespace plait
