#include "plait/device_group.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "algorithms/contract/collectives.hpp"
#include "backends/backend.hpp"
#include "communicator/check.hpp"
#include "communicator/communicator_state.hpp"
#include "communicator/groups/group_check.hpp"
#include "communicator/groups/open_group.hpp"
#include "communicator/vector_calls.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "core/thread_team.hpp"
#include "plait/bootstrap.hpp"
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

[[noreturn]] void refuse(ErrorCode code, const std::string& why) {
  throw Error(code, "device group: " + why);
}

std::vector<int> checked_devices(std::vector<int> devices, BackendKind kind) {
  if (devices.empty()) refuse(ErrorCode::invalid_argument, "no device was named");
  const int there = device_count(kind);
  if (there == 0) refuse(ErrorCode::unsupported, why_no_device(kind));
  for (auto device = devices.begin(); device != devices.end(); ++device) {
    if (*device < 0)
      refuse(ErrorCode::invalid_argument,
             fmt::format("{} is no device: they are numbered from 0", *device));
    if (kind != BackendKind::host && *device >= there)
      refuse(ErrorCode::invalid_argument, fmt::format("{} device {} does not exist, there are {}",
                                                      name_of(kind), *device, there));
    if (std::find(devices.begin(), device, *device) != device)
      refuse(ErrorCode::invalid_argument,
             fmt::format("{} device {} is named twice", name_of(kind), *device));
  }
  return devices;
}

/// A call as the user made it. All of it is read before the call returns, so nothing is copied.
struct GroupCall {
  Call call;
  DeviceGroup::Inputs send;
  DeviceGroup::Outputs recv;
  DeviceGroup::Streams streams;
  const CallOptions& options;
  // Of send and recv. None: `call` has the count.
  std::optional<std::pair<PerDevice<std::size_t>, PerDevice<std::size_t>>> extents{};
};

}  // namespace

class DeviceGroupState {
 public:
  DeviceGroupState(std::vector<int> devices, BackendKind kind, const DeviceGroupOptions& options);
  ~DeviceGroupState();
  DeviceGroupState(const DeviceGroupState&) = delete;
  DeviceGroupState& operator=(const DeviceGroupState&) = delete;

  const Origin origin{};

  std::size_t size() const noexcept { return devices_.size(); }
  BackendKind kind() const noexcept { return kind_; }
  Communicator& at(std::size_t rank) const { return *ranks_[rank]; }

  /// Enqueues the call on all devices or, if it throws, on none; or adds it to this thread's group.
  void call(const GroupCall& call);
  /// The same for a call that consists of messages. `what`: the call, as the user wrote it;
  /// `ends_of(rank)`: its messages on this rank, or the error that refuses it.
  void messages(std::string_view what, DataType type,
                const std::function<std::vector<MessageEnd>(std::size_t)>& ends_of,
                const DeviceGroup::Streams& streams, const CallOptions& options);
  /// Throws Error(invalid_argument) unless there are as many as devices.
  void check_number(std::string_view call, std::string_view of, std::size_t number) const;
  std::vector<std::shared_ptr<Window>> allocate(std::size_t bytes);
  void synchronize(const DeviceGroup::Streams& streams);
  bool test(const DeviceGroup::Streams& streams);
  int wait_any(const DeviceGroup::Streams& streams);
  std::optional<Error> tell_error() const;
  InUse& in_use() { return in_use_; }
  void abort(std::string_view reason) {
    for (const auto& rank : ranks_) rank->abort(reason);
  }

 private:
  DeviceGroupState(std::vector<int> devices, BackendKind kind);
  GroupMember& member(std::size_t rank) const { return ranks_[rank]->member(); }
  static StreamRef ref(const DeviceGroup::Streams& streams, std::size_t rank) {
    return streams.empty() ? StreamRef() : streams[rank];
  }
  static NativeStream stream(const DeviceGroup::Streams& streams, std::size_t rank) {
    return ref(streams, rank).native();
  }
  std::string name(std::size_t rank) const {
    return fmt::format("rank {}: {} device {}", rank, name_of(kind_), devices_[rank]);
  }
  Error named(const Error& error, std::size_t rank) const;
  Error named(const Error& error) const;

  void check_numbers(const GroupCall& call) const;
  void check_streams(std::string_view name, const DeviceGroup::Streams& streams) const;
  Call with_count(const GroupCall& call) const;
  /// One per rank. All are empty if there is nothing to do.
  using PreparedCalls = std::vector<std::optional<PreparedCall>>;
  PreparedCalls prepare(const GroupCall& call);
  void check_places(const PreparedCalls& prepared) const;
  void check_disjoint(const PreparedCalls& prepared) const;
  void check_captures(const GroupCall& call) const;
  void enqueue(const GroupCall& call, const PreparedCalls& prepared);
  std::vector<InUse::Scope> enter(std::string_view call);

  InUse in_use_;
  BackendKind kind_;
  std::vector<int> devices_;
  ThreadTeam threads_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::optional<Error> untold_;  // found by a `test` while other devices were at work
};

DeviceGroupState::DeviceGroupState(std::vector<int> devices, BackendKind kind)
    : kind_(kind),
      devices_(std::move(devices)),
      threads_("a thread for each device", devices_.size()),
      ranks_(devices_.size()) {}

/// Delegates, so the destructor destroys the communicators that exist if this constructor throws.
DeviceGroupState::DeviceGroupState(std::vector<int> devices, BackendKind kind,
                                   const DeviceGroupOptions& options)
    : DeviceGroupState(checked_devices(std::move(devices), kind), kind) {
  const StandardFdsTaken taken;
  auto bootstraps = make_thread_bootstraps(static_cast<int>(size()));
  threads_.run(size(), [&](std::size_t rank) {
    const CommunicatorOptions own{.backend = kind_,
                                  .device = devices_[rank],
                                  .timeout = options.timeout,
                                  .scratch_bytes = options.scratch_bytes,
                                  .reproducible = options.reproducible};
    ranks_[rank].reset(new Communicator(std::make_unique<CommunicatorState>(
        std::move(bootstraps[rank]), own, nullptr, HostDevices::named)));
    ranks_[rank]->calibrate(true);
    log::info("{}", ranks_[rank]->describe());
  });
}

DeviceGroupState::~DeviceGroupState() {
  // This thread's group: the communicators are destroyed on other threads, below.
  std::size_t calls = 0;
  for (const auto& rank : ranks_)
    if (rank != nullptr) calls += OpenGroup::of_thread().forget(rank->member());
  if (calls != 0)
    log::warn(
        "a device group is destroyed with calls in a group that has not ended: {} of them, on all "
        "devices, never enqueued",
        calls);
  // One program drives all ranks, so it is told of an error once: if no rank has told it, rank 0
  // logs the error for all.
  const bool told = std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) {
    return rank != nullptr && rank->member().was_told();
  });
  for (const auto& rank : ranks_)
    if (rank != nullptr && (told || rank != ranks_.front())) rank->member().tell();
  threads_.run(size(), [&](std::size_t rank) { ranks_[rank].reset(); });
}

/// An error that ends the communicator concerns all ranks and names them. Any other error concerns
/// one rank.
Error DeviceGroupState::named(const Error& error, std::size_t rank) const {
  switch (error.code()) {
    case ErrorCode::timeout:
    case ErrorCode::aborted:
    case ErrorCode::rank_lost:
    case ErrorCode::mismatch:
      return named(error);
    default:
      return {error.code(), fmt::format("{} ({})", error.what(), name(rank))};
  }
}

Error DeviceGroupState::named(const Error& error) const {
  return {error.code(), fmt::format("{} ({} devices of ranks 0 to {}: {})", error.what(),
                                    name_of(kind_), size() - 1, fmt::join(devices_, ", "))};
}

void DeviceGroupState::check_streams(std::string_view name,
                                     const DeviceGroup::Streams& streams) const {
  if (streams.empty()) return;
  if (streams.size() != size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} streams for {} devices", name, streams.size(), size()));
  for (std::size_t b = 1; b < size(); ++b)
    for (std::size_t a = 0; a < b; ++a)
      if (const NativeStream same = stream(streams, a);
          same != nullptr && same == stream(streams, b))
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format(
                "{}: ranks {} and {} have the same stream: each needs one of its own device", name,
                a, b));
}

void DeviceGroupState::check_number(std::string_view call, std::string_view of,
                                    std::size_t number) const {
  if (number != size())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: {} {} for {} devices", call, number, of, size()));
}

void DeviceGroupState::check_numbers(const GroupCall& call) const {
  if (!is_valid(call.call.collective))
    refuse(ErrorCode::invalid_argument,
           fmt::format("{} is no collective", static_cast<int>(call.call.collective)));
  const std::string name(name_of(call.call.collective));
  const bool has_buffers = call.call.collective != Collective::barrier;
  for (const auto& [what, number] :
       {std::pair{"send", call.send.size()}, {"recv", call.recv.size()}})
    if (has_buffers) check_number(name, fmt::format("{} buffers", what), number);
  check_streams(name, call.streams);
}

/// The call with its count, from the lengths of typed buffers. The block size is taken from a
/// buffer of rank 0: from recv if all ranks have it and it is one block, otherwise from send.
Call DeviceGroupState::with_count(const GroupCall& call) const {
  Call counted = call.call;
  if (!call.extents) return counted;
  const auto& [send, recv] = *call.extents;
  const CollectiveFacts facts = facts_of(counted.collective);
  const bool by_recv = !facts.recv.root_only && facts.recv.size == BufferFacts::Size::one;
  const std::size_t blocks =
      !by_recv && facts.send.size == BufferFacts::Size::one_per_rank ? size() : 1;
  counted.count = (by_recv ? recv : send)[0] / blocks;
  for (std::size_t rank = 0; rank < size(); ++rank)
    if (const auto wrong =
            check_extents(counted.collective, send[rank], recv[rank], counted.count,
                          static_cast<int>(rank), static_cast<int>(size()), counted.root))
      throw named(*wrong, rank);
  return counted;
}

/// Prepares the call on all devices, before anything is sent to one of them.
DeviceGroupState::PreparedCalls DeviceGroupState::prepare(const GroupCall& call) {
  check_numbers(call);
  const Call counted = with_count(call);
  PreparedCalls prepared(size());
  const auto prepare_on = [&](std::size_t rank) {
    const bool has_buffers = counted.collective != Collective::barrier;
    prepared[rank] = member(rank).prepare(counted, has_buffers ? call.send[rank] : nullptr,
                                          has_buffers ? call.recv[rank] : nullptr,
                                          stream(call.streams, rank), call.options);
  };
  std::size_t rank = 0;
  try {
    if (member(0).prepares_together()) threads_.run(size(), prepare_on);
    else
      for (; rank < size(); ++rank) prepare_on(rank);
  } catch (const Error& error) {
    if (member(0).prepares_together()) throw named(error);  // all ranks throw the same error
    throw named(error, rank);
  }
  check_places(prepared);
  check_disjoint(prepared);
  return prepared;
}

/// Ranks that pass symmetric memory must pass the same place, because each looks for its peers'
/// data at its own offset.
void DeviceGroupState::check_places(const PreparedCalls& prepared) const {
  if (!prepared[0]) return;
  const auto place = [](const PreparedCall& one) {
    return std::tuple(one.call.symmetric, one.call.in_place, one.place);
  };
  for (std::size_t rank = 1; rank < size(); ++rank)
    if (place(*prepared[rank]) != place(*prepared[0]))
      throw named(
          Error(ErrorCode::mismatch,
                fmt::format("{}: rank {} passes {}, rank 0 {}: pass the same place of the same "
                            "symmetric memory on all devices, or "
                            "on none",
                            name_of(prepared[0]->call.collective), rank,
                            member(rank).places(*prepared[rank]), member(0).places(*prepared[0]))));
}

/// No device may write memory that another device reads or writes. All may read the same memory.
void DeviceGroupState::check_disjoint(const PreparedCalls& prepared) const {
  if (!prepared[0]) return;
  const Call& call = prepared[0]->call;  // all ranks have the same sizes
  const std::size_t sent = send_bytes(call), received = recv_bytes(call);
  const auto overlap = [&](const void* written, const void* used, std::size_t bytes) {
    const auto a = reinterpret_cast<std::uintptr_t>(written),
               b = reinterpret_cast<std::uintptr_t>(used);
    return written != nullptr && used != nullptr && a < b + bytes && b < a + received;
  };
  for (std::size_t writer = 0; writer < size(); ++writer) {
    const void* const recv = prepared[writer]->buffers.recv;
    for (std::size_t other = 0; other < size(); ++other) {
      if (other == writer) continue;
      const Buffers& buffers = prepared[other]->buffers;
      const bool sends = overlap(recv, buffers.send, sent);
      if (!sends && !overlap(recv, buffers.recv, received)) continue;
      throw named(Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: recv = {}, {} bytes, of rank {} and {} = {}, {} bytes, of rank {} "
                      "overlap: each device needs a recv "
                      "of its own",
                      name_of(call.collective), recv, received, writer, sends ? "send" : "recv",
                      sends ? buffers.send : buffers.recv, sends ? sent : received, other)));
    }
  }
}

void DeviceGroupState::check_captures(const GroupCall& call) const {
  const bool first = member(0).is_capturing(stream(call.streams, 0));
  for (std::size_t rank = 1; rank < size(); ++rank)
    if (member(rank).is_capturing(stream(call.streams, rank)) != first)
      throw named(
          Error(ErrorCode::invalid_argument,
                fmt::format("{}: the stream of rank {} is being captured and that of rank {} is "
                            "not: a call is captured on all "
                            "devices or on none",
                            name_of(call.call.collective), first ? 0 : rank, first ? rank : 0)));
}

void DeviceGroupState::enqueue(const GroupCall& call, const PreparedCalls& prepared) {
  for (std::size_t rank = 0; rank < size(); ++rank) {
    try {
      member(rank).submit(*prepared[rank], stream(call.streams, rank));
    } catch (const std::exception& error) {
      const auto* const known = dynamic_cast<const Error*>(&error);
      throw named(known != nullptr ? *known : Error(ErrorCode::backend, error.what()), rank);
    }
  }
}

/// Enters the communicators of all devices, because each can be used by itself, too.
std::vector<InUse::Scope> DeviceGroupState::enter(std::string_view call) {
  std::vector<InUse::Scope> inside;
  inside.reserve(size());
  for (std::size_t rank = 0; rank < size(); ++rank)
    inside.emplace_back(member(rank).in_use(), call);
  return inside;
}

void DeviceGroupState::call(const GroupCall& call) {
  const auto inside = enter(name_of(call.call.collective));
  // A call that is refused here is refused on all devices, so it takes no number.
  if (OpenGroup& group = OpenGroup::of_thread(); group.is_open()) {
    group.add([&] {
      if (call.options.blocking)  // not left to `prepare`, which may run on other threads
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("{}: a blocking call in a group would wait for what only the "
                                "group's end enqueues: synchronize after that",
                                name_of(call.call.collective)));
      const PreparedCalls prepared = prepare(call);
      for (std::size_t rank = 0; rank < size(); ++rank)
        if (prepared[rank])
          group.add_part(member(rank), *prepared[rank], stream(call.streams, rank));
    });
    return;
  }
  const PreparedCalls prepared = prepare(call);
  if (prepared[0]) {  // else no rank has work
    check_captures(call);
    enqueue(call, prepared);
  }
  if (call.options.blocking) synchronize(call.streams);
}

/// Outside of a group this opens one, whose end checks the messages of all devices together and
/// launches them.
void DeviceGroupState::messages(std::string_view what, DataType type,
                                const std::function<std::vector<MessageEnd>(std::size_t)>& ends_of,
                                const DeviceGroup::Streams& streams, const CallOptions& options) {
  const auto inside = enter(what);
  std::vector<std::vector<PreparedCall>> parts;
  const auto prepare = [&] {
    check_streams(what, streams);
    for (std::size_t rank = 0; rank < size(); ++rank) {
      try {
        parts.push_back(member(rank).prepare_messages(what, type, ends_of(rank),
                                                      stream(streams, rank), options));
      } catch (const Error& error) {
        throw named(error, rank);
      }
    }
  };
  OpenGroup& group = OpenGroup::of_thread();
  const auto add = [&] {
    for (std::size_t rank = 0; rank < size(); ++rank)
      for (const PreparedCall& part : parts[rank])
        group.add_part(member(rank), part, stream(streams, rank));
  };
  if (group.is_open()) {
    group.add([&] {
      prepare();
      add();
    });
    return;
  }
  prepare();
  in_group([&] { group.add(add); });
  if (options.blocking) synchronize(streams);
}

std::vector<std::shared_ptr<Window>> DeviceGroupState::allocate(std::size_t bytes) {
  std::vector<std::shared_ptr<Window>> windows(size());
  try {
    threads_.run(size(),
                 [&](std::size_t rank) { windows[rank] = ranks_[rank]->allocate_bytes(bytes); });
  } catch (const Error& error) {
    throw named(error);
  }
  return windows;
}

void DeviceGroupState::synchronize(const DeviceGroup::Streams& streams) {
  check_streams("synchronize", streams);
  std::optional<Error> first = std::exchange(untold_, std::nullopt);
  for (std::size_t rank = 0; rank < size(); ++rank) {
    try {
      ranks_[rank]->synchronize(ref(streams, rank));
    } catch (const Error& error) {
      if (!first) first = named(error, rank);
    }
  }
  if (first) throw *std::move(first);
}

bool DeviceGroupState::test(const DeviceGroup::Streams& streams) {
  check_streams("test", streams);
  bool done = true;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    try {
      done = ranks_[rank]->test(ref(streams, rank)) && done;
    } catch (const Error& error) {
      if (!untold_) untold_ = named(error, rank);
    }
  }
  if (done && untold_) throw *std::exchange(untold_, std::nullopt);
  return done;
}

int DeviceGroupState::wait_any(const DeviceGroup::Streams& streams) {
  check_streams("wait_any", streams);
  for (Backoff backoff(stream_pace);; backoff.pause()) {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      try {
        if (ranks_[rank]->test(ref(streams, rank))) return static_cast<int>(rank);
      } catch (const Error& error) {
        throw named(error, rank);
      }
    }
  }
}

std::optional<Error> DeviceGroupState::tell_error() const {
  for (std::size_t rank = 0; rank < size(); ++rank)
    if (const auto error = ranks_[rank]->async_error()) return named(*error, rank);
  return std::nullopt;
}

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
    refuse(ErrorCode::invalid_argument,
           fmt::format("{} devices, but at least 1 is needed", devices));
  std::vector<int> numbers(static_cast<std::size_t>(devices));
  std::iota(numbers.begin(), numbers.end(), 0);
  return DeviceGroup(std::make_unique<DeviceGroupState>(std::move(numbers),
                                                        choose_backend(options, devices), options));
}

int DeviceGroup::size() const { return static_cast<int>(state("size").size()); }
BackendKind DeviceGroup::backend_kind() const { return state("backend_kind").kind(); }

Communicator& DeviceGroup::device(int rank) const {
  DeviceGroupState& own = state("device");
  if (rank < 0 || rank >= size())
    refuse(ErrorCode::invalid_argument,
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
      : state_(group.state(call)), scope_(state_.in_use(), call, "device group") {}
  DeviceGroupState* operator->() const { return &state_; }

 private:
  DeviceGroupState& state_;
  InUse::Scope scope_;
};

std::vector<std::shared_ptr<Window>> DeviceGroup::allocate_bytes(std::size_t bytes) {
  return Inside(*this, "allocate_bytes")->allocate(bytes);
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
  Inside(*this, name_of(call.collective))
      ->call({.call = call, .send = send, .recv = recv, .streams = streams, .options = options});
}

void DeviceGroup::enqueue_checked(const Call& call, Inputs send, Outputs recv,
                                  PerDevice<std::size_t> send_counts,
                                  PerDevice<std::size_t> recv_counts, Streams streams,
                                  const CallOptions& options) {
  Inside(*this, name_of(call.collective))
      ->call({.call = call,
              .send = send,
              .recv = recv,
              .streams = streams,
              .options = options,
              .extents = std::pair(send_counts, recv_counts)});
}

/// `blocks`: how many descriptions of blocks there are, of those that need one per device.
/// `ends_of(VectorCall, rank)`: the messages of a device.
template <class EndsOf>
void DeviceGroup::by_messages(std::string_view what, DataType type, Inputs send, Outputs recv,
                              std::initializer_list<std::size_t> blocks, const EndsOf& ends_of,
                              Streams streams, const CallOptions& options) {
  const Inside own(*this, what);
  own->messages(
      what, type,
      [&](std::size_t rank) {
        own->check_number(what, "send buffers", send.size());
        own->check_number(what, "recv buffers", recv.size());
        for (const std::size_t number : blocks) own->check_number(what, "lists of blocks", number);
        return ends_of(
            VectorCall(what, type, static_cast<int>(rank), static_cast<int>(own->size())), rank);
      },
      streams, options);
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
  OpenGroup& around = OpenGroup::of_thread();
  std::vector<VectorCall::Block> blocks;
  try {
    const Inside own(*this, what);
    own->check_number(what, "send buffers", send.size());
    blocks = VectorCall(what, type, 0, static_cast<int>(own->size())).reduce_scatter(counts);
    if (options.blocking && around.is_open())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: a blocking call in a group would wait for what only the group's "
                              "end enqueues: synchronize after that",
                              what));
  } catch (const Error& error) {
    if (!around.is_open()) throw;
    return around.fail(error);
  }
  CallOptions of_each = options;
  of_each.blocking = false;
  in_group([&] {
    std::vector<const void*> inputs(blocks.size());
    for (std::size_t root = 0; root < blocks.size(); ++root) {
      for (std::size_t rank = 0; rank < inputs.size(); ++rank)
        inputs[rank] = send[rank] == nullptr
                           ? nullptr
                           : static_cast<const std::byte*>(send[rank]) + blocks[root].begin;
      if (blocks[root].count != 0)
        enqueue({.collective = Collective::reduce,
                 .type = type,
                 .op = op,
                 .count = blocks[root].count,
                 .root = static_cast<int>(root)},
                inputs, recv, streams, of_each);
    }
  });
  if (options.blocking) synchronize(streams);
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
std::optional<Error> DeviceGroup::async_error() const { return state("async_error").tell_error(); }
void DeviceGroup::abort(std::string_view reason) { state("abort").abort(reason); }

}  // namespace plait
