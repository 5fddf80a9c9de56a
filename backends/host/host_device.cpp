#include "backends/host/host_device.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <unordered_set>
#include <utility>

namespace plait::host {
namespace {

/// Cached answer of `default_stream` for this thread. Device numbers begin at 1.
struct LastDefaultStream {
  std::uint64_t device = 0;
  NativeStream stream = nullptr;
};
constinit thread_local LastDefaultStream known;
constinit thread_local bool streams_are_gone = false;  // the thread has destroyed its OfThread

}  // namespace

/// A thread's default streams, one per device that it uses.
struct HostDevice::OfThread {
  struct Entry {
    std::uint64_t device;
    Owned* stream;
    std::weak_ptr<HostDevice> owner;
  };
  std::vector<Entry> entries;

  ~OfThread() {
    streams_are_gone = true;
    known.device = 0;
    for (const Entry& entry : entries)
      if (const auto device = entry.owner.lock(); device != nullptr && device->is_of_process())
        device->orphan(entry.stream);
  }

  /// Null if the thread has destroyed its object. Static objects, communicators among them, may be
  /// destroyed later than that.
  static OfThread* get() {
    if (streams_are_gone) return nullptr;
    thread_local OfThread own;
    return &own;
  }
};

namespace {

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> next = 0;
  return ++next;
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
  /// Takes no lock if the thread asks about the same stream as last time and no stream was removed
  /// since.
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

bool is_live(NativeStream stream) {
  return stream == nullptr || LiveStreams::of_process().has(stream);
}

HostDevice::HostDevice() : number_(next_number()) {}

HostDevice::Owned* HostDevice::add(bool is_default) {
  auto stream = std::make_shared<Owned>(is_default);
  const std::lock_guard lock(mutex_);
  LiveStreams::of_process().add(stream.get());
  return streams_.emplace_back(std::move(stream)).get();
}

NativeStream HostDevice::default_stream() {
  if (const LastDefaultStream& mine = known; mine.device == number_) return mine.stream;
  OfThread* const mine = OfThread::get();
  if (mine == nullptr) {
    const std::lock_guard lock(mutex_);
    if (late_default_ == nullptr) {
      late_default_ = streams_.emplace_back(std::make_shared<Owned>(true)).get();
      LiveStreams::of_process().add(late_default_);
    }
    return late_default_;
  }
  const auto remembered = [this](Owned* stream) {
    known = {number_, stream};
    return stream;
  };
  for (const OfThread::Entry& entry : mine->entries)
    if (entry.device == number_) return remembered(entry.stream);
  reap();
  std::erase_if(mine->entries, [](const OfThread::Entry& entry) { return entry.owner.expired(); });
  mine->entries.reserve(mine->entries.size() + 1);
  return remembered(
      mine->entries.emplace_back(OfThread::Entry{number_, add(true), weak_from_this()}).stream);
}

/// The ending thread does not wait, because its last call may need a later call of another thread.
void HostDevice::orphan(Owned* stream) noexcept {
  {
    const std::lock_guard lock(mutex_);
    stream->orphaned = true;
    ++orphans_;
  }
  reap();
}

/// Destroys the default streams of ended threads once their work is done.
void HostDevice::reap() noexcept {
  if (orphans_.load(std::memory_order_relaxed) == 0) return;
  std::vector<std::shared_ptr<Owned>> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto first = std::stable_partition(
        streams_.begin(), streams_.end(),
        [](const auto& stream) { return !stream->orphaned || !stream->is_idle(); });
    gone.assign(std::make_move_iterator(first), std::make_move_iterator(streams_.end()));
    for (const auto& stream : gone) LiveStreams::of_process().remove(stream.get());
    streams_.erase(first, streams_.end());
    orphans_ -= static_cast<int>(gone.size());
  }
}

void HostDevice::destroy_stream(NativeStream stream) noexcept {
  std::shared_ptr<Owned> gone;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const auto& owned) { return owned.get() == stream; });
    if (found == streams_.end()) return;
    LiveStreams::of_process().remove(stream);
    gone = std::move(*found);
    streams_.erase(found);
  }
  gone->finish();  // explicit, because another thread's `finish` may hold the stream longer
}

void HostDevice::synchronize(NativeStream stream) {
  at(stream).synchronize();
  reap();
}

void HostDevice::finish() {
  std::vector<std::shared_ptr<Owned>> streams;
  {
    const std::lock_guard lock(mutex_);
    streams = streams_;
  }
  for (const auto& stream : streams) stream->finish();
  streams.clear();
  reap();
}

std::shared_ptr<HostDevice> host_device(int ordinal) {
  struct Devices {
    std::mutex mutex;
    std::map<int, std::weak_ptr<HostDevice>> devices;
  };
  static OfProcess<Devices> of_process;
  auto& [mutex, devices] = of_process.get();
  const std::lock_guard lock(mutex);
  std::weak_ptr<HostDevice>& entry = devices[ordinal];
  auto device = entry.lock();
  if (device == nullptr || !device->is_of_process())
    entry = device = std::make_shared<HostDevice>();
  return device;
}

}  // namespace plait::host
