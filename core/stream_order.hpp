// Calls of one communicator share scratch memory, so they run one after another even when the caller spreads them over streams.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "backends/backend.hpp"

namespace plait {

/// Orders each call after the one before: every call leaves an event, and one on another stream waits for it there. Captured calls are not
/// ordered with others here: a graph runs when it is launched, and launching it after the communicator's other work is the caller's
/// business, as for any memory that two streams share.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Backend> backend) : backend_(std::move(backend)), last_call_(backend_->create_event(false)) {}

  /// Before a call on `stream` is enqueued. True: `leave` must follow. False: the stream is being captured.
  bool enter(NativeStream stream);
  void leave(NativeStream stream);

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Event> last_call_;
  std::uint64_t stream_ = 0;  // of the call that was entered
  std::optional<std::uint64_t> last_stream_;
};

}  // namespace plait
