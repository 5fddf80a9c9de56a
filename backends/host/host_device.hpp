// What a device of the host target is: a default stream, and the streams that were made on it.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "backends/backend.hpp"
#include "backends/host/host_stream.hpp"
#include "core/process.hpp"

namespace plait::host {

/// Shared by the backends, events and graphs of one device, of which the last destroys it. By any threads.
class HostDevice {
 public:
  HostDevice() = default;
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  HostStream& at(NativeStream stream) { return stream == nullptr ? default_stream_ : *static_cast<HostStream*>(stream); }
  NativeStream create_stream();
  /// Finishes its work first.
  void destroy_stream(NativeStream stream) noexcept;
  /// Returns when all that was pushed so far, to any stream, has run. What tasks have thrown is left to the streams' own `synchronize`.
  void finish();
  DeviceUse& use() noexcept { return use_; }
  /// False in a child made by fork, which has none of its threads.
  bool is_of_process() const noexcept { return origin_.is_here(); }

 private:
  Origin origin_;
  DeviceUse use_;
  HostStream default_stream_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<HostStream>> streams_;  // shared with `finish`, which waits for them without the lock
};

/// Whether it is a default stream, or one that some device of this process has made and not destroyed. Any thread may ask.
bool is_live(NativeStream stream);

/// The calling thread's own device of this number, if it has one, else the process's. A device lives as long as somebody holds it.
std::shared_ptr<HostDevice> host_device(int ordinal);
/// The calling thread's own device, which is from now on what `host_device` gives this thread.
std::shared_ptr<HostDevice> own_host_device(int ordinal);

}  // namespace plait::host
