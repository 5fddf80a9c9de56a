#include "backends/host/host_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <unordered_set>
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

/// The streams of all devices.
class LiveStreams {
 public:
  static LiveStreams& of_process() {
    static OfProcess<LiveStreams> streams;
    return streams.get();
  }
  void add(NativeStream stream) {
    const std::lock_guard lock(mutex_);
    live_.insert(stream);
  }
  void remove(NativeStream stream) {
    const std::lock_guard lock(mutex_);
    live_.erase(stream);
    removed_.fetch_add(1, std::memory_order_release);
  }
  /// A thread that asks again about the stream it asked about last takes no lock, unless one was removed since.
  bool has(NativeStream stream) {
    struct Answer {
      const LiveStreams* of;
      NativeStream stream;
      std::uint64_t removed;
      bool operator==(const Answer&) const = default;
    };
    thread_local Answer last{};
    const Answer now{this, stream, removed_.load(std::memory_order_acquire)};
    if (last == now) return true;
    const std::lock_guard lock(mutex_);
    if (!live_.contains(stream)) return false;
    last = now;
    return true;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<NativeStream> live_;
  std::atomic<std::uint64_t> removed_ = 0;
};

}  // namespace

bool is_live(NativeStream stream) { return stream == nullptr || LiveStreams::of_process().has(stream); }

NativeStream HostDevice::create_stream() {
  auto stream = std::make_shared<HostStream>();
  const std::lock_guard lock(mutex_);
  LiveStreams::of_process().add(stream.get());
  return streams_.emplace_back(std::move(stream)).get();
}

void HostDevice::destroy_stream(NativeStream stream) noexcept {
  std::shared_ptr<HostStream> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& owned) { return owned.get() == stream; });
    if (found == streams_.end()) return;
    LiveStreams::of_process().remove(stream);
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
