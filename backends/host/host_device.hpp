// A device of the host target: one default stream per thread that asks for it, and the streams that
// were created on it.
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

/// Shared by the backends, events and graphs of one device; the last of them destroys it.
/// Thread-safe.
///
/// Calls of one thread on the default stream keep their order, whichever communicators they belong
/// to. Calls of different threads don't wait for each other, because on another rank the threads
/// may make them in a different order. The stream outlives its thread until its work is done, so
/// everything that a thread enqueues before it ends is executed.
class HostDevice : public std::enable_shared_from_this<HostDevice> {
 public:
  HostDevice();
  HostDevice(const HostDevice&) = delete;
  HostDevice& operator=(const HostDevice&) = delete;

  /// Null stands for the calling thread's default stream, which is created when the thread first
  /// asks for it.
  NativeStream resolve(NativeStream stream) {
    return stream == nullptr ? default_stream() : stream;
  }
  HostStream& at(NativeStream stream) { return *static_cast<Owned*>(resolve(stream)); }
  /// Whether a resolved stream is the default stream of a thread.
  static bool is_default(NativeStream stream) noexcept {
    return static_cast<const Owned*>(stream)->is_default;
  }

  NativeStream create_stream() { return add(false); }
  /// Finishes the stream's work first.
  void destroy_stream(NativeStream stream) noexcept;
  /// Like HostStream::synchronize.
  void synchronize(NativeStream stream);
  /// Returns when all tasks pushed so far, to any stream, have run. Exceptions of tasks remain for
  /// each stream's `synchronize`.
  void finish();
  DeviceUse& use() noexcept { return use_; }
  /// False in a child made by fork, which has none of the device's threads.
  bool is_of_process() const noexcept { return origin_.is_here(); }

 private:
  struct Owned : HostStream {
    explicit Owned(bool is) : is_default(is) {}
    const bool is_default;
    bool orphaned = false;  // its thread has ended
  };
  struct OfThread;
  Owned* add(bool is_default);
  NativeStream default_stream();
  void orphan(Owned* stream) noexcept;
  void reap() noexcept;

  Origin origin_;
  const std::uint64_t number_;  // unique in the process
  DeviceUse use_;
  std::mutex mutex_;
  /// Shared with `finish`, which waits for them without the lock.
  std::vector<std::shared_ptr<Owned>> streams_;
  std::atomic<int> orphans_ = 0;  // orphaned streams among them
  /// Default stream of all threads that have already destroyed their own.
  Owned* late_default_ = nullptr;
};

/// Whether `stream` is null or a stream that a device of this process has created and not
/// destroyed. Any thread may ask.
bool is_live(NativeStream stream);

/// The process's device of this number. A device lives as long as a caller holds it.
std::shared_ptr<HostDevice> host_device(int ordinal);

}  // namespace plait::host
