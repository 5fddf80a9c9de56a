// The devices of a group, each a rank of one communicator.
#pragma once
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "communicator/communicator_state.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/in_use.hpp"
#include "core/log.hpp"
#include "core/process.hpp"
#include "core/standard_fds.hpp"
#include "core/thread_team.hpp"
#include "plait/bootstrap.hpp"
#include "plait/device_group.hpp"
#include "plait/error.hpp"

namespace plait {

[[noreturn]] inline void refuse_devices(ErrorCode code, const std::string& why) {
  throw Error(code, "device group: " + why);
}

/// A loop over its ranks, whose calls are one call of a group.
class DeviceGroupState {
 public:
  using Streams = DeviceGroup::Streams;

  /// Delegates, so the destructor destroys the communicators that exist if this constructor throws.
  DeviceGroupState(std::vector<int> devices, BackendKind on, const DeviceGroupOptions& options)
      : DeviceGroupState(checked_devices(std::move(devices), on), on) {
    const StandardFdsTaken taken;
    auto bootstraps = make_thread_bootstraps(static_cast<int>(size()));
    threads_.run(size(), [&](std::size_t rank) {
      const CommunicatorOptions own{.backend = kind,
                                    .device = devices_[rank],
                                    .timeout = options.timeout,
                                    .scratch_bytes = options.scratch_bytes,
                                    .reproducible = options.reproducible,
                                    .reproducible_tree = options.reproducible_tree};
      ranks_[rank].reset(new Communicator(std::make_unique<CommunicatorState>(
          std::move(bootstraps[rank]), own, nullptr, HostDevices::named)));
      ranks_[rank]->calibrate(true);
      log::info("{}", ranks_[rank]->describe());
    });
  }
  ~DeviceGroupState() {
    // This thread's group: the communicators are destroyed on other threads, below.
    std::size_t calls = 0;
    for (const auto& rank : ranks_)
      if (rank != nullptr) calls += OpenGroup::of_thread().forget(rank->member());
    if (calls != 0)
      log::warn(
          "a device group is destroyed with calls in a group that has not ended: {} of them, on "
          "all devices, never enqueued",
          calls);
    // One program drives all ranks, so it is told of an error once: if no rank has told it, rank 0
    // logs the error for all.
    const auto watchdog = [](const auto& rank) -> const Watchdog& {
      return *rank->state("destruction").resources.watchdog;
    };
    const bool told = std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& rank) {
      return rank != nullptr && watchdog(rank).was_told();
    });
    for (const auto& rank : ranks_)
      if (rank != nullptr && (told || rank != ranks_.front())) watchdog(rank).tell();
    threads_.run(size(), [&](std::size_t rank) { ranks_[rank].reset(); });
  }
  DeviceGroupState(const DeviceGroupState&) = delete;
  DeviceGroupState& operator=(const DeviceGroupState&) = delete;

  std::size_t size() const noexcept { return devices_.size(); }
  Communicator& at(std::size_t rank) const { return *ranks_[rank]; }
  CallPath& path(std::size_t rank) const { return ranks_[rank]->state("call").path; }

  /// One rank's share of a call on all devices.
  struct RankCall {
    std::size_t rank;
    CommunicatorState& state;
    OpenGroup& group;
    NativeStream stream;
    const CallOptions& options;
  };
  /// Makes a call on all devices or, if it throws, on none: as one call of this thread's group, or
  /// alone. `check` throws if the call is wrong on all ranks; `add` adds a rank's call to the
  /// group, or throws.
  ///
  /// Alone, the call is a group of its own, whose end checks the captures and the memory of all
  /// devices together. A call that can't be added is refused on all devices, so it takes no number.
  void call(std::string_view what, const Streams& streams, const CallOptions& options,
            const std::function<void()>& check, const std::function<void(const RankCall&)>& add) {
    const auto inside = enter(what);
    OpenGroup& group = OpenGroup::of_thread();
    const auto add_or = [&](const CallOptions& of_each, auto refused) {
      try {
        check_streams(what, streams);
        check();
        add_all(what, streams, of_each, add);
      } catch (...) {
        refused();
        throw;
      }
    };
    if (group.is_open()) {
      group.add([&] { add_or(options, [&] { group.take_back(); }); });
      return;
    }
    CallOptions of_each = options;
    of_each.blocking = false;
    if (options.blocking) {
      check_streams(what, streams);
      on_each([&](std::size_t rank) {
        path(rank).preparer().check_may_block(what, ref(streams, rank).native());
      });
    }
    group.start_call(what);
    add_or(of_each, [&] { group.cancel(); });
    try {
      group.end();
    } catch (const Error& error) {
      throw named(error);
    }
    if (options.blocking) synchronize(streams);
  }
  /// The same for a collective. `request_of(rank, options)`: a rank's call, or the error that
  /// refuses it.
  template <class RequestOf>
  void collective(std::string_view what, const Streams& streams, const CallOptions& options,
                  const std::function<void()>& check, const RequestOf& request_of) {
    if (OpenGroup::of_thread().is_open())
      return call(what, streams, options, check, [&](const RankCall& one) {
        one.state.collectives.add_to(one.group, request_of(one.rank, one.options), one.stream);
      });
    const auto inside = enter(what);
    check_streams(what, streams);
    check();
    CallOptions of_each = options;
    of_each.blocking = false;
    std::vector<Request> requests;
    std::vector<KnownCalls::Found> found;
    requests.reserve(size());
    found.reserve(size());
    on_each([&](std::size_t rank) {
      requests.push_back(request_of(rank, of_each));
      found.push_back(path(rank).find_known(requests.back()));
    });
    if (!may_repeat(streams, requests, found))
      return call(what, streams, options, check, [&](const RankCall& one) {
        one.state.collectives.add_to(one.group, requests[one.rank], one.stream,
                                     found[one.rank].empty);
      });
    on_each([&](std::size_t r) { path(r).check_again(what, ref(streams, r).native(), options); });
    on_each(
        [&](std::size_t r) { path(r).launch_again(*found[r].known, ref(streams, r).native()); });
    if (options.blocking) synchronize(streams);
  }
  /// Throws Error(invalid_argument) unless there are as many as devices.
  void check_number(std::string_view call, std::string_view of, std::size_t number) const {
    if (number != size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} {} for {} devices", call, number, of, size()));
  }
  void check_buffers(std::string_view call, const DeviceGroup::Inputs& send,
                     const DeviceGroup::Outputs& recv) const {
    check_number(call, "send buffers", send.size());
    check_number(call, "recv buffers", recv.size());
  }
  /// `make(communicator, rank)` of every rank, side by side.
  template <class Make>
  std::vector<std::shared_ptr<Window>> windows(Make make) {
    std::vector<std::shared_ptr<Window>> windows(size());
    try {
      threads_.run(size(), [&](std::size_t rank) { windows[rank] = make(*ranks_[rank], rank); });
    } catch (const Error& error) {
      throw named(error);
    }
    return windows;
  }
  void synchronize(const Streams& streams) {
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
  bool test(const Streams& streams) {
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
  int wait_any(const Streams& streams) {
    check_streams("wait_any", streams);
    std::optional<int> ended;
    for (Backoff backoff(stream_pace);; backoff.pause()) {
      on_each([&](std::size_t rank) {
        if (!ended && ranks_[rank]->test(ref(streams, rank))) ended = static_cast<int>(rank);
      });
      if (ended) return *ended;
    }
  }
  /// The error with the names of the devices: of a rank's, or of all. An error that ends the
  /// communicator concerns all ranks and names them. Any other error concerns one rank.
  Error named(const Error& error, std::size_t rank) const {
    switch (error.code()) {
      case ErrorCode::timeout:
      case ErrorCode::aborted:
      case ErrorCode::rank_lost:
      case ErrorCode::mismatch:
        return named(error);
      default:
        return {error.code(), fmt::format("{} (rank {}: {} device {})", error.what(), rank,
                                          name_of(kind), devices_[rank])};
    }
  }
  Error named(const Error& error) const {
    return {error.code(), fmt::format("{} ({} devices of ranks 0 to {}: {})", error.what(),
                                      name_of(kind), size() - 1, fmt::join(devices_, ", "))};
  }

  const Origin origin{};
  const BackendKind kind;
  InUse in_use;

 private:
  static std::vector<int> checked_devices(std::vector<int> devices, BackendKind on) {
    if (devices.empty()) refuse_devices(ErrorCode::invalid_argument, "no device was named");
    const int there = device_count(on);
    if (there == 0) refuse_devices(ErrorCode::unsupported, why_no_device(on));
    for (auto device = devices.begin(); device != devices.end(); ++device) {
      if (*device < 0)
        refuse_devices(ErrorCode::invalid_argument,
                       fmt::format("{} is no device: they are numbered from 0", *device));
      if (on != BackendKind::host && *device >= there)
        refuse_devices(
            ErrorCode::invalid_argument,
            fmt::format("{} device {} does not exist, there are {}", name_of(on), *device, there));
      if (std::find(devices.begin(), device, *device) != device)
        refuse_devices(ErrorCode::invalid_argument,
                       fmt::format("{} device {} is named twice", name_of(on), *device));
    }
    return devices;
  }
  DeviceGroupState(std::vector<int> devices, BackendKind on)
      : kind(on),
        devices_(std::move(devices)),
        threads_("a thread for each device", devices_.size()),
        ranks_(devices_.size()) {}
  /// Enters the ranks, because each can be used by itself, too.
  std::vector<InUse::Scope> enter(std::string_view what) const {
    std::vector<InUse::Scope> inside;
    inside.reserve(size());
    for (const auto& rank : ranks_) inside.emplace_back(rank->member().in_use(), what);
    return inside;
  }
  /// True if all devices know the call, and what a group's end checks of all of them together is
  /// plain to see. If not, the group's end decides, and has the words for its error.
  bool may_repeat(const Streams& streams, std::span<const Request> requests,
                  std::span<const KnownCalls::Found> found) const {
    const auto is_captured = [&](std::size_t rank) {
      return path(rank).is_capturing(path(rank).resolve(ref(streams, rank).native()));
    };
    const auto signature = [&](std::size_t rank) {
      return found[rank].known->announcements.front().signature;
    };
    for (std::size_t rank = 0; rank < size(); ++rank)
      if (found[rank].known == nullptr || !signature(rank).agrees_with(signature(0)) ||
          is_captured(rank) != is_captured(0))
        return false;
    return !may_overlap(requests, std::nullopt);
  }
  static StreamRef ref(const Streams& streams, std::size_t rank) {
    return streams.empty() ? StreamRef() : streams[rank];
  }
  void check_streams(std::string_view name, const Streams& streams) const {
    if (streams.empty()) return;
    if (streams.size() != size())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}: {} streams for {} devices", name, streams.size(), size()));
    for (std::size_t b = 1; b < size(); ++b)
      for (std::size_t a = 0; a < b; ++a)
        if (const NativeStream same = ref(streams, a).native();
            same != nullptr && same == ref(streams, b).native())
          throw Error(
              ErrorCode::invalid_argument,
              fmt::format(
                  "{}: ranks {} and {} have the same stream: each needs one of its own device",
                  name, a, b));
  }
  template <class Body>
  void on_each(Body body) const {
    for (std::size_t rank = 0; rank < size(); ++rank) {
      try {
        body(rank);
      } catch (const Error& error) {
        throw named(error, rank);
      }
    }
  }
  void add_all(std::string_view what, const Streams& streams, const CallOptions& options,
               const std::function<void(const RankCall&)>& add) const {
    OpenGroup& group = OpenGroup::of_thread();
    on_each([&](std::size_t rank) {
      add({rank, ranks_[rank]->state(what), group, ref(streams, rank).native(), options});
    });
    // With PLAIT_CHECK=1, the comparison at the end may refuse the call.
    if (ranks_[0]->member().prepares_together())
      for (const auto& rank : ranks_) group.refuse(rank->member(), {.collective = true});
  }

  std::vector<int> devices_;
  ThreadTeam threads_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::optional<Error> untold_;  // found by a `test` while other devices were at work
};

}  // namespace plait
