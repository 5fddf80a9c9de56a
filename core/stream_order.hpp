// Calls of one communicator share scratch memory, so they run one after another even when the caller spreads them over streams.
#pragma once
#include <memory>

#include "backends/backend.hpp"

namespace plait {

/// Orders each call after the one before. Costs nothing while a single stream is used; from the second stream on, every call leaves an
/// event. Captured calls are not ordered with others here: a graph runs when it is launched, and launching it after the communicator's
/// other work is the caller's business, as for any buffer that two streams share.
class StreamOrder {
 public:
  explicit StreamOrder(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {}

  /// Marks the end of the call when destroyed.
  class Scope {
   public:
    Scope(StreamOrder* order, NativeStream stream) : order_(order), stream_(stream) {}
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StreamOrder* order_;
    NativeStream stream_;
  };

  /// To be held while a call on `stream` is enqueued.
  Scope enter(NativeStream stream);

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Event> last_call_;  // made when a second stream appears
  NativeStream last_stream_ = nullptr;
  bool used_ = false;
};

}  // namespace plait
