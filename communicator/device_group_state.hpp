// The devices of a group, each a rank of one communicator.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator_state.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/in_use.hpp"
#include "core/process.hpp"
#include "core/thread_team.hpp"
#include "plait/device_group.hpp"

namespace plait {

[[noreturn]] void refuse_devices(ErrorCode code, const std::string& why);

/// A loop over its ranks, whose calls are one call of a group.
class DeviceGroupState {
 public:
  using Streams = DeviceGroup::Streams;

  DeviceGroupState(std::vector<int> devices, BackendKind kind, const DeviceGroupOptions& options);
  ~DeviceGroupState();
  DeviceGroupState(const DeviceGroupState&) = delete;
  DeviceGroupState& operator=(const DeviceGroupState&) = delete;

  std::size_t size() const noexcept { return devices_.size(); }
  Communicator& at(std::size_t rank) const { return *ranks_[rank]; }

  /// A rank's part of a call.
  struct Part {
    std::size_t rank;
    CommunicatorState& state;
    OpenGroup& group;
    NativeStream stream;
    const CallOptions& options;
  };
  /// Makes a call on all devices or, if it throws, on none: as one call of this thread's group, or
  /// alone. `check` throws if the call is wrong on all ranks; `add` adds a rank's part to the
  /// group, or throws.
  void call(std::string_view what, const Streams& streams, const CallOptions& options,
            const std::function<void()>& check, const std::function<void(const Part&)>& add);
  /// Throws Error(invalid_argument) unless there are as many as devices.
  void check_number(std::string_view call, std::string_view of, std::size_t number) const;
  void check_buffers(std::string_view call, const DeviceGroup::Inputs& send,
                     const DeviceGroup::Outputs& recv) const;
  std::vector<std::shared_ptr<Window>> allocate(std::size_t bytes);
  void synchronize(const Streams& streams);
  bool test(const Streams& streams);
  int wait_any(const Streams& streams);
  /// The error with the names of the devices: of a rank's, or of all.
  Error named(const Error& error, std::size_t rank) const;
  Error named(const Error& error) const;

  const Origin origin{};
  const BackendKind kind;
  InUse in_use;

 private:
  DeviceGroupState(std::vector<int> devices, BackendKind kind);
  static StreamRef ref(const Streams& streams, std::size_t rank) {
    return streams.empty() ? StreamRef() : streams[rank];
  }
  void check_streams(std::string_view name, const Streams& streams) const;
  template <class Body>
  void on_each(Body body) const;
  void add_all(std::string_view what, const Streams& streams, const CallOptions& options,
               const std::function<void(const Part&)>& add) const;

  std::vector<int> devices_;
  ThreadTeam threads_;
  std::vector<std::unique_ptr<Communicator>> ranks_;
  std::optional<Error> untold_;  // found by a `test` while other devices were at work
};

}  // namespace plait
