// Calls of one communicator share scratch memory, so they run one after another even when the caller spreads them over streams.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/backend.hpp"

namespace plait {

/// Orders each call after the one before: every call leaves an event, and one on another stream waits for it there. Captured calls are
/// ordered with those of the same capture alone: a graph runs when it is launched, and launching it after the communicator's other work is
/// the caller's business, as for any memory that two streams share.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Backend> backend);

  /// Before a call on `stream` is enqueued: whether that is being captured. `leave` must follow.
  bool enter(NativeStream stream);
  void leave(NativeStream stream);

 private:
  struct Last {
    std::unique_ptr<Event> event;
    std::optional<std::uint64_t> stream;  // none: no call yet
  };

  std::shared_ptr<Backend> backend_;
  Last plain_, captured_;
  std::uint64_t capture_ = 0;  // of the captured call
  Last* entered_ = nullptr;    // null: a call that need not be ordered
  std::uint64_t stream_ = 0;   // of the call that was entered
};

}  // namespace plait
