#include "plait/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "bootstrap/agreement.hpp"
#include "communicator/calibration/calibration.hpp"
#include "communicator/calibration/calm.hpp"
#include "communicator/check.hpp"
#include "communicator/communicator_state.hpp"
#include "communicator/event.hpp"
#include "communicator/groups/open_group.hpp"
#include "communicator/vector_calls.hpp"
#include "core/float_environment.hpp"
#include "core/log.hpp"
#include "core/standard_fds.hpp"
#include "plait/collective_table.h"
#include "symm_mem/window.hpp"

namespace plait {

const CommunicatorState& Communicator::member_of(std::string_view call) const {
  if (state_ == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this communicator was moved from", call));
  return *state_;
}
CommunicatorState& Communicator::state(std::string_view call) const {
  member_of(call).origin.require(call, "communicator");
  return *state_;
}

/// For calls that one thread at a time may make: refuses other threads as long as it lives.
class Communicator::Inside {
 public:
  Inside(const Communicator& comm, std::string_view call)
      : state_(comm.state(call)), scope_(state_.in_use(), call) {}
  CommunicatorState* operator->() const { return &state_; }
  CommunicatorState& operator*() const { return state_; }

 private:
  CommunicatorState& state_;
  InUse::Scope scope_;
};

Communicator::Communicator(std::unique_ptr<CommunicatorState> state) : state_(std::move(state)) {}
Communicator::~Communicator() {
  if (state_ != nullptr && !state_->origin.is_here()) keep_for_ever(std::move(state_));
  const FloatEnvironment defaults;  // a GPU's driver frees memory here
  state_.reset();
}
GroupMember& Communicator::member() const { return state("group"); }
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  Communicator before(std::move(other));
  std::swap(state_, before.state_);  // `before` destroys what was here
  return *this;
}

Communicator Communicator::create(std::unique_ptr<Bootstrap> bootstrap,
                                  const CommunicatorOptions& options) {
  if (bootstrap == nullptr)
    throw Error(ErrorCode::invalid_argument, "creating a communicator: the bootstrap is null");
  // Settings with fractions are compared, and some of the threads that are started here compute.
  const FloatEnvironment defaults;
  const StandardFdsTaken taken;  // drivers open files, too
  Communicator comm(std::make_unique<CommunicatorState>(std::move(bootstrap), options));
  comm.calibrate(true);
  log::info("{}", comm.describe());
  return comm;
}

namespace {

/// Makes the part of `parent` that `bootstrap` connects. Errors have the part's numbers of ranks,
/// which the user does not know yet, so the parent's numbers go in front of them.
std::unique_ptr<CommunicatorState> make_part(const CommunicatorState& parent,
                                             std::unique_ptr<Bootstrap> bootstrap) {
  CommunicatorOptions options = parent.made_with;
  options.timeout = parent.settings.timeout;
  const auto part = name_part(bootstrap->parent_ranks());
  const FloatEnvironment defaults;
  const StandardFdsTaken taken;
  try {
    return std::make_unique<CommunicatorState>(std::move(bootstrap), options, &parent);
  } catch (const Error& error) {
    if (!part || parent.tell_error()) throw;  // the parent's own error has the parent's numbers
    throw Error(error.code(), fmt::format("{}: {}", *part, error.what()));
  }
}

constexpr const char* measuring = "calibration";

}  // namespace

std::optional<Communicator> Communicator::divide(const char* what, int color, int key) {
  const Inside own(*this, what);
  own->throw_if_broken();
  auto group =
      on_behalf_of(*own->bootstrap, what, [&] { return own->bootstrap->split(color, key); });
  if (color < 0) return std::nullopt;
  Communicator part(make_part(*own, std::move(group)));
  if (what != measuring) part.calibrate(false);
  log::info("{}", part.describe());
  own->adopt(*part.state_);
  return part;
}

/// Gives the selection the times that were measured on this machine: those of PLAIT_TUNING, of
/// plait-tune, and of an earlier calibration. If there are none, and the built-in table has no
/// rules for these GPUs either, it measures some. Those calls are made in a duplicate, so that this
/// communicator is as new afterwards.
///
/// `may_measure` is false for a part of a communicator: programs that make parts don't expect that
/// to take long. A file of PLAIT_TUNING may be for the whole, so it is passed over there.
/// Nothing is measured where each call is compared, which takes time, or traced, because the trace
/// would show it. Nor is it beside other communicators on a device: calls of three that nothing
/// orders may wait for each other for ever (docs/invariants.md).
void Communicator::calibrate(bool may_measure) {
  CommunicatorState& own = *state_;
  const Calibration wish = own.settings.calibration;
  const Topology& topology = own.selector.topology();
  const auto& tuning = own.settings.tuning;
  const std::string machine = describe_for_calibration(own.backend->info(), topology);
  if (tuning && tuning->has_times()) {
    try {
      own.selector.add_times(tuning_variable, times_of(*tuning, *own.bootstrap, machine));
    } catch (const Error& error) {
      if (may_measure || error.code() != ErrorCode::invalid_argument) throw;
      log::info("passed over for a part of a communicator: {}", error.what());
    }
  }
  if (wish == Calibration::off || own.bootstrap->size() == 1 || own.nodes.are_several()) return;
  const bool known = topology.backend != BackendKind::host && own.selector.has_builtin_rules(),
             asked = wish == Calibration::again,
             alone = !own.settings.check_calls && !own.settings.trace;
  const auto measure = [&] {
    const auto on_device = own.bootstrap->all_gather(own.backend->use().communicators.load());
    if (*std::max_element(on_device.begin(), on_device.end()) > 1) {
      log::info("calibration: not measured: there is another communicator on a device");
      return std::vector<MeasuredCall>();
    }
    try {
      Communicator other = *divide(measuring, 0, own.bootstrap->rank());
      other.state_->say_no_choices();
      return measure_on_calm_machine(other, topology, machine, asked);
    } catch (const Error& error) {  // on all ranks
      if (error.code() != ErrorCode::out_of_memory && error.code() != ErrorCode::timeout) throw;
      log::info("calibration: not measured: {}", error.what());
      return std::vector<MeasuredCall>();
    }
  };
  KeptTimes times =
      kept_times(*own.bootstrap, topology,
                 {.machine = machine,
                  .reproducible = own.selector.is_reproducible(),
                  .wish = wish,
                  .may_measure = alone && (asked || (may_measure && !known && !tuning))},
                 measure);
  own.selector.add_times("plait-tune", std::move(times.tuned));
  own.selector.add_times("calibration", std::move(times.calibration));
}

std::optional<Communicator> Communicator::split(int color, int key) {
  return divide("split", color, key);
}
Communicator Communicator::duplicate() {
  return *divide("duplicate", 0, state("duplicate").bootstrap->rank());
}

int Communicator::rank() const { return member_of("rank").bootstrap->rank(); }
int Communicator::size() const { return member_of("size").bootstrap->size(); }
BackendKind Communicator::backend_kind() const {
  return state("backend_kind").backend->info().backend;
}
Backend& backend_of(const Communicator& comm) { return *comm.state("backend").backend; }
const Selector& selector_of(const Communicator& comm) { return comm.state("selector").selector; }
Bootstrap& Communicator::bootstrap() const { return *state("bootstrap").bootstrap; }

std::string Communicator::describe() const {
  const CommunicatorState& own = state("describe");
  const DeviceInfo& info = own.backend->info();
  return fmt::format("rank {} of {}: {} device {}, {} ({}){}{}", rank(), size(),
                     name_of(info.backend), info.ordinal, info.name, info.architecture,
                     info.facts.peer_access ? "" : ", peers through host memory",
                     own.describe_nodes());
}

std::shared_ptr<Window> Communicator::allocate_bytes(std::size_t bytes) {
  const Inside own(*this, "allocate");
  own->throw_if_broken();
  const DeviceScope device(*own->backend);
  return own->heap.allocate(bytes);
}

void Communicator::reserve() { Inside(*this, "reserve")->reserve(); }

bool Communicator::extents_fit(Collective collective, std::size_t send, std::size_t recv,
                               std::size_t count, int root) const {
  const Inside own(*this, name_of(collective));
  const auto wrong = check_extents(collective, send, recv, count, rank(), size(), root);
  if (wrong) own->refuse(*wrong, {.collective = send != 0 || recv != 0}, true);
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
    own->refuse(Error(ErrorCode::invalid_argument,
                      fmt::format("{}: rank {}: {} has {} elements, and the block of rank {} is {} "
                                  "from element {} on",
                                  what, rank(), buffer, size, peer, count, begin)),
                peers != nullptr ? RefusedParts::of_messages(peers->to, peers->from)
                                 : RefusedParts::of_all_messages(),
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
    own->refuse(Error(ErrorCode::invalid_argument, fmt::format("{}: rank {}: {}", what, mine, why)),
                {.collective = sum != 0}, true);
  return why.empty();
}

void Communicator::refuse(const Error& error, const Call& call) {
  const bool messages = call.collective == Collective::send_recv && call.count != 0;
  Inside(*this, "refuse")
      ->refuse(error, messages ? RefusedParts::of_all_messages() : RefusedParts::of(call));
}
void Communicator::refuse(const Error& error, const Peers& peers) {
  Inside(*this, "refuse")->refuse(error, RefusedParts::of_messages(peers.to, peers.from));
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
  Inside(*this, name_of(call.collective))->call(call, send, recv, stream, options);
}

// A designated initialiser names the members in their order in Call.
#define PLAIT_DEFINE(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)                              \
  void Communicator::NAME(const void* send, void* recv, std::size_t count, DataType type, \
                          PLAIT_IF_##OP(ReduceOp op, ) PLAIT_IF_##ROOT(int root, )        \
                              StreamRef stream,                                           \
                          const CallOptions& options) {                                   \
    enqueue({.collective = Collective::NAME,                                              \
             .type = type,                                                                \
             PLAIT_IF_##OP(.op = op, ).count = count,                                     \
             PLAIT_IF_##ROOT(.root = root)},                                              \
            send, recv, stream, options);                                                 \
  }
PLAIT_COLLECTIVES(PLAIT_DEFINE, PLAIT_NO_OTHER)
#undef PLAIT_DEFINE

void Communicator::reduce_on_host(Collective collective, const void* send, void* recv,
                                  std::size_t count, const HostOperation& op, int root,
                                  StreamRef stream, std::size_t elements) {
  Inside(*this, name_of(collective))
      ->reduce_on_host({collective, send, recv, count, op, root}, elements, stream);
}
void Communicator::all_reduce(const void* send, void* recv, std::size_t count,
                              const HostOperation& op, StreamRef stream) {
  reduce_on_host(Collective::all_reduce, send, recv, count, op, 0, stream);
}
void Communicator::reduce_scatter(const void* send, void* recv, std::size_t count,
                                  const HostOperation& op, StreamRef stream) {
  reduce_on_host(Collective::reduce_scatter, send, recv, count, op, 0, stream);
}
void Communicator::reduce(const void* send, void* recv, std::size_t count, const HostOperation& op,
                          int root, StreamRef stream) {
  reduce_on_host(Collective::reduce, send, recv, count, op, root, stream);
}

void Communicator::scan(const void* send, void* recv, std::size_t count, const HostOperation& op,
                        StreamRef stream) {
  reduce_on_host(Collective::scan, send, recv, count, op, 0, stream);
}
void Communicator::exscan(const void* send, void* recv, std::size_t count, const HostOperation& op,
                          StreamRef stream) {
  reduce_on_host(Collective::exscan, send, recv, count, op, 0, stream);
}

void Communicator::send(const void* data, std::size_t count, DataType type, int to,
                        StreamRef stream, const CallOptions& options) {
  const MessageEnd end{
      .sends = true, .peer = to, .buffer = const_cast<void*>(data), .count = count};
  Inside(*this, "send")->messages("send", type, {&end, 1}, stream, options);
}
void Communicator::recv(void* data, std::size_t count, DataType type, int from, StreamRef stream,
                        const CallOptions& options) {
  const MessageEnd end{.sends = false, .peer = from, .buffer = data, .count = count};
  Inside(*this, "recv")->messages("recv", type, {&end, 1}, stream, options);
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
  Inside(*this, "send_recv")->messages("send_recv", type, ends, stream, options);
}

/// `make_ends(VectorCall)` checks the arguments, and says what this rank sends and receives.
/// `by_all`: as CommunicatorState::messages.
template <class MakeEnds>
void Communicator::by_messages(std::string_view what, DataType type, const MakeEnds& make_ends,
                               StreamRef stream, const CallOptions& options,
                               const CallByAll* by_all, const Peers& peers) {
  const Inside own(*this, what);
  VectorCall::Ends ends;
  try {
    ends = make_ends(VectorCall(what, type, rank(), size()));
  } catch (const Error& error) {
    return own->refuse(error,
                       by_all != nullptr ? RefusedParts::of_all_messages()
                                         : RefusedParts::of_messages(peers.to, peers.from),
                       by_all != nullptr);
  }
  own->messages(what, type, ends, stream, options, by_all);
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
  std::vector<VectorCall::Block> blocks;
  bool together = false;
  {
    const Inside own(*this, what);
    together = own->prepares_together();
    const RefusedParts refused{
        .collective = std::any_of(counts.begin(), counts.end(), [](auto n) { return n != 0; })};
    try {
      blocks = VectorCall(what, type, rank(), size()).reduce_scatter(counts);
      if (options.blocking) own->check_may_block(what, stream.native());
    } catch (const Error& error) {
      return own->refuse(error, refused, true);
    }
  }
  const bool even =
      options.algorithm.empty() &&
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to()) == counts.end();
  if (even && !together)
    return reduce_scatter(send, recv, counts.front(), type, op, stream, options);
  std::vector<CallPart> parts;
  parts.reserve(blocks.size());
  if (even)
    parts.push_back({.call = {.collective = Collective::reduce_scatter,
                              .type = type,
                              .op = op,
                              .count = counts.front()},
                     .send = send,
                     .recv = recv});
  for (int root = 0; root < size() && !even; ++root) {
    const auto& [begin, count] = blocks[static_cast<std::size_t>(root)];
    if (count == 0) continue;
    parts.push_back(
        {.call = {.collective = Collective::reduce,
                  .type = type,
                  .op = op,
                  .count = count,
                  .root = root},
         .send = send == nullptr ? nullptr : static_cast<const std::byte*>(send) + begin,
         .recv = recv});
  }
  if (!OpenGroup::of_thread().is_open() && !together)
    return Inside(*this, what)->calls(what, parts, stream, options);
  CallOptions of_each = options;
  of_each.blocking = false;
  in_group([&] { Inside(*this, what)->add_parts(parts, stream, of_each); });
  if (options.blocking) synchronize(stream);
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
  CommunicatorState& own = state("statistics");
  own.in_use().look("statistics");
  return own.statistics();
}

std::optional<Error> Communicator::async_error() const {
  const CommunicatorState& own = state("async_error");
  own.compare();
  return own.tell_error();
}
void Communicator::abort(std::string_view reason) { state("abort").abort(reason); }
Progress Communicator::progress() const { return state("progress").read_progress(); }

Stream Communicator::create_stream() {
  const std::shared_ptr<Backend>& backend = state("create_stream").backend;
  const DeviceScope device(*backend);
  return Stream(backend);
}

Event Communicator::create_event() { return make_event(state("create_event").backend); }
Event Communicator::wrap_event(void* native) {
  return find_event(state("wrap_event").backend, native);
}

void Communicator::copy(void* to, const void* from, std::size_t bytes, StreamRef stream) {
  Inside(*this, "copy")->copy(to, from, bytes, stream);
}

std::string Communicator::explain(const Call& call, const CallOptions& options) const {
  const FloatEnvironment defaults;
  return state("explain").selector.explain(completed(call, options), options);
}
std::string Communicator::chosen(const Call& call, const CallOptions& options) const {
  const FloatEnvironment defaults;
  return std::string(
      state("chosen").selector.choose(completed(call, options), options).algorithm->name());
}
Call Communicator::completed(const Call& call, const CallOptions& options) const {
  Call made = described(call, options, rank(), size());
  made.symmetric = call.symmetric || options.symmetric;
  made.in_place = call.in_place;
  check_facts(made, options, rank(), size());
  return in_words(made);
}
bool Communicator::is_symmetric(const void* pointer, std::size_t bytes) const {
  CommunicatorState& own = state("is_symmetric");
  own.in_use().look("is_symmetric");
  return own.heap.find(pointer, bytes) != nullptr;
}

namespace detail {

void* local_pointer(const Window& window) { return window.local(); }

}  // namespace detail
}  // namespace plait
