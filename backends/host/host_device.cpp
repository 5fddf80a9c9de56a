#include "backends/host/host_device.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace plait::host {
namespace {

/// By number. Whoever looks a device up holds it.
using Devices = std::map<int, std::weak_ptr<HostDevice>>;
thread_local Devices own_devices;

std::shared_ptr<HostDevice> find_or_make(Devices& devices, int ordinal) {
  std::weak_ptr<HostDevice>& entry = devices[ordinal];
  auto device = entry.lock();
  if (device == nullptr || !device->is_of_process()) entry = device = std::make_shared<HostDevice>();
  return device;
}

}  // namespace

NativeStream HostDevice::create_stream() {
  auto stream = std::make_shared<HostStream>();
  const std::lock_guard lock(mutex_);
  return streams_.emplace_back(std::move(stream)).get();
}

void HostDevice::destroy_stream(NativeStream stream) noexcept {
  std::shared_ptr<HostStream> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& owned) { return owned.get() == stream; });
    if (found == streams_.end()) return;
    gone = std::move(*found);
    streams_.erase(found);
  }
  gone->finish();  // here, even if another thread's `finish` holds it longer
}

void HostDevice::finish() {
  std::vector<std::shared_ptr<HostStream>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  default_stream_.finish();
  for (const auto& stream : streams) stream->finish();
}

std::shared_ptr<HostDevice> host_device(int ordinal) {
  if (const auto own = own_devices.find(ordinal); own != own_devices.end())
    if (auto device = own->second.lock(); device != nullptr && device->is_of_process()) return device;
  struct Known {
    std::mutex mutex;
    Devices devices;
  };
  static OfProcess<Known> of_process;
  auto& [mutex, devices] = of_process.get();
  const std::lock_guard lock(mutex);
  return find_or_make(devices, ordinal);
}

std::shared_ptr<HostDevice> own_host_device(int ordinal) { return find_or_make(own_devices, ordinal); }

}  // namespace plait::host
