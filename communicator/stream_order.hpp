// Calls of one communicator share scratch memory, so they run one after another even when the
// caller spreads them over streams.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/backend.hpp"

namespace plait {

/// Orders each call after the one before: every call leaves an event, and one on another stream
/// waits for it there. Captured calls are ordered with those of the same capture alone: a graph
/// runs when it is launched, and launching it after the communicator's other work is the caller's
/// business, as for any memory that two streams share.
///
/// Where each thread has a default stream of its own (the host), callers see but one: what they do
/// with the communicator on default streams, copies too, is in the order in which they do it,
/// whichever thread does.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Backend> backend);

  // Streams are such as Backend::resolve returns.
  /// Before a call on `stream` is enqueued: whether that is being captured. `leave` must follow.
  bool enter(NativeStream stream);
  void leave(NativeStream stream);
  /// The same for a copy, which is ordered with what is on other threads' default streams alone.
  void enter_copy(NativeStream stream);
  void leave_copy(NativeStream stream);
  /// Waits for `stream`, and, if it is the thread's default stream, for what the communicator has
  /// on those of other threads.
  void synchronize(NativeStream stream);

 private:
  struct Last {
    std::unique_ptr<Event> event;
    std::optional<std::uint64_t> stream;  // none: there was nothing yet
    void wait_in(NativeStream other, std::uint64_t number) const {
      if (stream && *stream != number) event->wait_in(other);
    }
    void record(NativeStream on, std::uint64_t number) {
      event->record(on);
      stream = number;
    }
  };
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
