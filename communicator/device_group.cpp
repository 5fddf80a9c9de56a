#include "plait/device_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <optional>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "communicator/calls/call_checks.hpp"
#include "communicator/device_group_state.hpp"
#include "communicator/messages/vector_calls.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"

namespace plait {
namespace {

std::optional<BackendKind> asked_for(const DeviceGroupOptions& options) {
  if (options.backend) return options.backend;
  if (const auto name = environment("PLAIT_BACKEND")) return parse_backend(*name);
  return std::nullopt;
}

/// The target that was asked for, else a GPU target with at least `devices` devices, else the host.
BackendKind choose_backend(const DeviceGroupOptions& options, int devices) {
  if (const auto wanted = asked_for(options)) return *wanted;
  for (const BackendKind kind : {BackendKind::cuda, BackendKind::hip})
    if (device_count(kind) >= devices) return kind;
  return BackendKind::host;
}

/// The call with its count, if the extents fit on this rank. The block size is taken from a buffer
/// of rank 0: from recv if all ranks have it and it is one block, otherwise from send.
Call with_count(Call call, const PerDevice<std::size_t>& send, const PerDevice<std::size_t>& recv,
                std::size_t rank, std::size_t ranks) {
  const CollectiveFacts facts = facts_of(call.collective);
  const bool by_recv = !facts.recv.root_only && facts.recv.size == BufferFacts::Size::one;
  const std::size_t blocks =
      !by_recv && facts.send.size == BufferFacts::Size::one_per_rank ? ranks : 1;
  call.count = (by_recv ? recv : send)[0] / blocks;
  if (const auto wrong = check_extents(call.collective, send[rank], recv[rank], call.count,
                                       static_cast<int>(rank), static_cast<int>(ranks), call.root))
    throw Error(*wrong);
  return call;
}

using RankCall = DeviceGroupState::RankCall;

}  // namespace

DeviceGroupState& DeviceGroup::state(std::string_view call) const {
  if (state_ == nullptr)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: this device group was moved from", call));
  state_->origin.require(call, "device group");
  return *state_;
}

DeviceGroup::DeviceGroup(std::unique_ptr<DeviceGroupState> state) : state_(std::move(state)) {}
DeviceGroup::DeviceGroup(std::vector<int> devices, const DeviceGroupOptions& options)
    : state_(std::make_unique<DeviceGroupState>(std::move(devices), choose_backend(options, 1),
                                                options)) {}
DeviceGroup::~DeviceGroup() {
  if (state_ != nullptr && !state_->origin.is_here()) keep_for_ever(std::move(state_));
}
DeviceGroup::DeviceGroup(DeviceGroup&&) noexcept = default;
DeviceGroup& DeviceGroup::operator=(DeviceGroup&& other) noexcept {
  DeviceGroup before(std::move(other));
  std::swap(state_, before.state_);  // `before` destroys what was here
  return *this;
}

DeviceGroup DeviceGroup::first(int devices, const DeviceGroupOptions& options) {
  if (devices < 1)
    refuse_devices(ErrorCode::invalid_argument,
                   fmt::format("{} devices, but at least 1 is needed", devices));
  std::vector<int> numbers(static_cast<std::size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  return DeviceGroup(std::make_unique<DeviceGroupState>(std::move(numbers),
                                                        choose_backend(options, devices), options));
}

int DeviceGroup::size() const { return static_cast<int>(state("size").size()); }
BackendKind DeviceGroup::backend_kind() const { return state("backend_kind").kind; }

Communicator& DeviceGroup::device(int rank) const {
  DeviceGroupState& own = state("device");
  if (rank < 0 || rank >= size())
    refuse_devices(ErrorCode::invalid_argument,
                   fmt::format("rank {} is none of the ranks 0 to {}", rank, size() - 1));
  return own.at(static_cast<std::size_t>(rank));
}

std::string DeviceGroup::describe() const {
  DeviceGroupState& own = state("describe");
  std::vector<std::string> lines;
  for (std::size_t rank = 0; rank < own.size(); ++rank) lines.push_back(own.at(rank).describe());
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// For calls that one thread at a time may make: refuses other threads as long as it lives.
class DeviceGroup::Inside {
 public:
  Inside(const DeviceGroup& group, std::string_view call)
      : state_(group.state(call)), scope_(state_.in_use, call, "device group") {}
  DeviceGroupState* operator->() const { return &state_; }

 private:
  DeviceGroupState& state_;
  InUse::Scope scope_;
};

std::vector<std::shared_ptr<Window>> DeviceGroup::allocate_bytes(std::size_t bytes) {
  return Inside(*this, "allocate_bytes")->windows([&](Communicator& comm, std::size_t) {
    return comm.allocate_bytes(bytes);
  });
}

std::vector<std::shared_ptr<Window>> DeviceGroup::attach(std::span<void* const> pointers,
                                                         std::size_t bytes) {
  const Inside own(*this, "attach");
  own->check_number("attach", "pointers", pointers.size());
  return own->windows(
      [&](Communicator& comm, std::size_t rank) { return comm.attach(pointers[rank], bytes); });
}
void DeviceGroup::detach(std::span<const std::shared_ptr<Window>> windows) {
  const Inside own(*this, "detach");
  own->check_number("detach", "windows", windows.size());
  own->windows([&](Communicator& comm, std::size_t rank) {
    comm.detach(windows[rank]);
    return nullptr;
  });
}

std::vector<Stream> DeviceGroup::create_streams() {
  DeviceGroupState& own = state("create_streams");
  std::vector<Stream> streams;
  for (std::size_t rank = 0; rank < own.size(); ++rank)
    streams.push_back(own.at(rank).create_stream());
  return streams;
}

void DeviceGroup::enqueue(const Call& call, Inputs send, Outputs recv, Streams streams,
                          const CallOptions& options) {
  const Inside own(*this, name_of(call.collective));
  const std::string_view what = name_of(call.collective);
  const bool has_buffers = call.collective != Collective::barrier;
  const auto check = [&] {
    if (has_buffers) own->check_buffers(what, send, recv);
  };
  own->collective(what, streams, options, check,
                  [&](std::size_t rank, const CallOptions& of_each) -> Request {
                    return {.call = call,
                            .send = has_buffers ? send[rank] : nullptr,
                            .recv = has_buffers ? recv[rank] : nullptr,
                            .options = of_each};
                  });
}

void DeviceGroup::enqueue_checked(const Call& call, Inputs send, Outputs recv,
                                  PerDevice<std::size_t> send_counts,
                                  PerDevice<std::size_t> recv_counts, Streams streams,
                                  const CallOptions& options) {
  const Inside own(*this, name_of(call.collective));
  const std::string_view what = name_of(call.collective);
  const auto check = [&] { own->check_buffers(what, send, recv); };
  own->collective(what, streams, options, check,
                  [&](std::size_t rank, const CallOptions& of_each) -> Request {
                    return {.call = with_count(call, send_counts, recv_counts, rank, own->size()),
                            .send = send[rank],
                            .recv = recv[rank],
                            .options = of_each};
                  });
}

/// `blocks`: how many descriptions of blocks there are, of those that need one per device.
/// `ends_of(VectorCall, rank)`: the messages of a device.
template <class EndsOf>
void DeviceGroup::by_messages(std::string_view what, DataType type, Inputs send, Outputs recv,
                              std::initializer_list<std::size_t> blocks, const EndsOf& ends_of,
                              Streams streams, const CallOptions& options) {
  const Inside own(*this, what);
  const auto check = [&] {
    own->check_buffers(what, send, recv);
    for (const std::size_t number : blocks) own->check_number(what, "lists of blocks", number);
  };
  own->call(what, streams, options, check, [&](const RankCall& one) {
    const VectorCall call(what, type, static_cast<int>(one.rank), static_cast<int>(own->size()));
    const VectorCall::Ends ends = ends_of(call, one.rank);
    one.state.messages.add_to(one.group, what,
                              {.call = {.collective = Collective::send_recv, .type = type},
                               .ends = ends,
                               .options = one.options},
                              one.stream);
  });
}

namespace {

/// That of device `rank`. Blocks that are too few are refused later, with the others.
std::size_t count_of(const Communicator::BlocksOf& blocks, std::size_t rank) {
  return rank < blocks.counts.size() ? blocks.counts[rank] : 0;
}

}  // namespace

void DeviceGroup::all_to_all_v(Inputs send, PerDevice<BlocksOf> sent, Outputs recv,
                               PerDevice<BlocksOf> received, DataType type, Streams streams,
                               const CallOptions& options) {
  by_messages(
      "all_to_all_v", type, send, recv, {sent.size(), received.size()},
      [&](const VectorCall& call, std::size_t r) {
        return call.all_to_all(send[r], sent[r], recv[r], received[r]);
      },
      streams, options);
}
void DeviceGroup::all_gather_v(Inputs send, Outputs recv, const BlocksOf& received, DataType type,
                               Streams streams, const CallOptions& options) {
  by_messages(
      "all_gather_v", type, send, recv, {},
      [&](const VectorCall& call, std::size_t r) {
        return call.all_gather(send[r], count_of(received, r), recv[r], received);
      },
      streams, options);
}
void DeviceGroup::gather_v(Inputs send, Outputs recv, const BlocksOf& received, DataType type,
                           int root, Streams streams, const CallOptions& options) {
  by_messages(
      "gather_v", type, send, recv, {},
      [&](const VectorCall& call, std::size_t r) {
        return call.gather(send[r], count_of(received, r), recv[r], received, root);
      },
      streams, options);
}
void DeviceGroup::scatter_v(Inputs send, const BlocksOf& sent, Outputs recv, DataType type,
                            int root, Streams streams, const CallOptions& options) {
  by_messages(
      "scatter_v", type, send, recv, {},
      [&](const VectorCall& call, std::size_t r) {
        return call.scatter(send[r], sent, recv[r], count_of(sent, r), root);
      },
      streams, options);
}
void DeviceGroup::reduce_scatter_v(Inputs send, std::span<const std::size_t> counts, Outputs recv,
                                   DataType type, ReduceOp op, Streams streams,
                                   const CallOptions& options) {
  constexpr std::string_view what = "reduce_scatter_v";
  const Inside own(*this, what);
  const auto check = [&] { own->check_buffers(what, send, recv); };
  own->call(what, streams, options, check, [&](const RankCall& one) {
    const VectorCall call(what, type, static_cast<int>(one.rank), static_cast<int>(own->size()));
    for (const Request& request :
         call.reduce_scatter(send[one.rank], counts, recv[one.rank], op, one.options))
      one.state.collectives.add_to(one.group, request, one.stream);
  });
}
void DeviceGroup::neighbor_all_to_all_v(Inputs send, PerDevice<NeighborBlocks> sent, Outputs recv,
                                        PerDevice<NeighborBlocks> received, DataType type,
                                        Streams streams, const CallOptions& options) {
  by_messages(
      "neighbor_all_to_all_v", type, send, recv, {sent.size(), received.size()},
      [&](const VectorCall& call, std::size_t r) {
        return call.neighbor_all_to_all(send[r], sent[r], recv[r], received[r]);
      },
      streams, options);
}

void DeviceGroup::synchronize(Streams streams) {
  Inside(*this, "synchronize")->synchronize(streams);
}
bool DeviceGroup::test(Streams streams) { return Inside(*this, "test")->test(streams); }
int DeviceGroup::wait_any(Streams streams) { return Inside(*this, "wait_any")->wait_any(streams); }
std::optional<Error> DeviceGroup::async_error() const {
  const DeviceGroupState& own = state("async_error");
  for (std::size_t rank = 0; rank < own.size(); ++rank)
    if (const auto error = own.at(rank).async_error()) return own.named(*error, rank);
  return std::nullopt;
}
void DeviceGroup::abort(std::string_view reason) {
  const DeviceGroupState& own = state("abort");
  for (std::size_t rank = 0; rank < own.size(); ++rank) own.at(rank).abort(reason);
}

}  // namespace plait
