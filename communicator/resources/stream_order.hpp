// Calls of one communicator share scratch memory, so they run one after another even if the caller
// spreads them over streams.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/backend.hpp"

namespace plait {

/// Orders each call after the one before: every call leaves an event, and a call on another stream
/// waits for it on the device. Captured calls are ordered only with those of the same capture,
/// because a graph runs when it is launched. The caller must launch it after the communicator's
/// other work, as for any memory that two streams share.
///
/// If each thread has its own default stream (the host), callers see only one: the communicator's
/// calls and copies on default streams run in the order in which they are made, whichever threads
/// make them.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Backend> backend);

  // All streams must come from Backend::resolve.
  /// Call it before a call on `stream` is enqueued, and `leave` after. Returns true if the stream
  /// is being captured.
  bool enter(NativeStream stream);
  void leave(NativeStream stream);
  /// Whether all that `enter` would wait for has ended. A call that is launched now, and waited for
  /// before anything else, needs neither of them. Never waits.
  bool is_clear() { return is_idle() && (!default_copy_.stream || default_copy_.event->test()); }
  /// The same for a copy, which is ordered only with calls and copies on other threads' default
  /// streams.
  void enter_copy(NativeStream stream);
  void leave_copy(NativeStream stream);
  /// Waits for `stream`. If it is the thread's default stream, also waits for the communicator's
  /// work on the default streams of other threads.
  void synchronize(NativeStream stream);
  /// Whether `synchronize` would return at once. Never waits.
  bool is_done(NativeStream stream);
  /// Whether the last call has ended, of those that are not in graphs. Never waits.
  bool is_idle() const noexcept;

 private:
  struct Last {
    std::unique_ptr<DeviceEvent> event;
    std::optional<std::uint64_t> stream;  // none: nothing was recorded yet
    void wait_in(NativeStream other, std::uint64_t number) const {
      if (stream && *stream != number) event->wait_in(other);
    }
    void record(NativeStream on, std::uint64_t number) {
      event->record(on);
      stream = number;
    }
  };
  /// Calls `body(event)` for the communicator's last work on default streams of threads, if
  /// `stream` is one of another thread.
  template <class Body>
  void for_other_defaults(NativeStream stream, Body body) {
    if (!backend_->is_per_thread(stream)) return;
    for (const Last* last : {&default_call_, &default_copy_})
      if (last->stream && *last->stream != backend_->identity(stream)) body(*last->event);
  }
  bool is_copy_in_order(NativeStream stream) {
    return backend_->is_per_thread(stream) && !backend_->is_capturing(stream);
  }

  std::shared_ptr<Backend> backend_;
  Last plain_, captured_;             // calls
  Last default_call_, default_copy_;  // on default streams of threads
  const Last* last_ = nullptr;        // the last plain call
  std::uint64_t capture_ = 0;         // of the captured call
  Last* entered_ = nullptr;           // null: a call that need not be ordered
  std::uint64_t stream_ = 0;          // of the call that was entered
};

}  // namespace plait
