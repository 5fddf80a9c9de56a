// What a device of the host target is: a default stream for each thread that asks for it, and the
// streams that were made on it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/backend.hpp"
#include "backends/host/host_stream.hpp"
#include "core/process.hpp"

namespace plait::host {

/// Shared by the backends, events and graphs of one device, of which the last destroys it. By any
/// threads.
///
/// Calls of one thread on the default stream keep their order, whichever communicators they belong
/// to; those of different threads don't wait for each other, as two threads may make them in
/// another order on another rank. The stream outlives its thread until its work is done: what a
/// thread has enqueued before it ends counts.
class HostDevice : public std::enable_shared_from_this<HostDevice> {
 public:
  HostDevice();
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  /// Null: the calling thread's default stream, which is made when the thread first asks for it.
  NativeStream resolve(NativeStream stream) {
    return stream == nullptr ? default_stream() : stream;
  }
  HostStream& at(NativeStream stream) { return *static_cast<Owned*>(resolve(stream)); }
  /// Whether it is the default stream of some thread. Of a stream that was resolved.
  static bool is_default(NativeStream stream) noexcept {
    return static_cast<const Owned*>(stream)->is_default;
  }

  NativeStream create_stream() { return add(false); }
  /// Finishes its work first.
  void destroy_stream(NativeStream stream) noexcept;
  /// As HostStream's.
  void synchronize(NativeStream stream);
  /// Returns when all that was pushed so far, to any stream, has run. What tasks have thrown is
  /// left to the streams' own `synchronize`.
  void finish();
  DeviceUse& use() noexcept { return use_; }
  /// False in a child made by fork, which has none of its threads.
  bool is_of_process() const noexcept { return origin_.is_here(); }
  /// How many streams it has, default streams of threads among them.
  std::size_t streams();

 private:
  struct Owned : HostStream {
    explicit Owned(bool is) : is_default(is) {}
    const bool is_default;
    bool left = false;  // its thread has ended
  };
  struct OfThread;
  Owned* add(bool is_default);
  NativeStream default_stream();
  void leave(Owned* stream) noexcept;
  void reap() noexcept;

  Origin origin_;
  const std::uint64_t number_;  // never used for another device
  DeviceUse use_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Owned>>
      streams_;                // shared with `finish`, which waits for them without the lock
  std::atomic<int> left_ = 0;  // of those
  Owned* late_ = nullptr;      // of all threads that are past their end
};

/// Whether it is a default stream, or one that some device of this process has made and not
/// destroyed. Any thread may ask.
bool is_live(NativeStream stream);

/// The process's device of this number. A device lives as long as somebody holds it.
std::shared_ptr<HostDevice> host_device(int ordinal);

}  // namespace plait::host
