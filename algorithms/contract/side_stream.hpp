// A stream of the communicator's own, on which a part of a call runs beside the rest.
#pragma once
#include <memory>

#include "backends/backend.hpp"

namespace plait {

/// Made once, so that a call creates nothing. One call at a time uses it: between `fork` and `join`
/// on the call's stream, and calls of one communicator are ordered (stream_order.hpp). A capture
/// takes the stream in at `fork` and keeps it until it ends, so captured calls need one of their
/// own (`SideStreams`).
class SideStream {
 public:
  explicit SideStream(std::shared_ptr<Backend> backend);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// The stream for work beside `stream`: it begins when all that `stream` was given so far is
  /// done. `stream` itself where the target can't capture a second one.
  NativeStream fork(NativeStream stream);
  /// What `stream` is given next waits for all that the side stream was given.
  void join(NativeStream stream);

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<Event> forked_, joined_;
  NativeStream side_ = nullptr;  // none where the target has no second stream for a call
};

/// One for plain calls and one for captured ones: a stream stays a part of a capture until that
/// ends, and plain calls may come in between. Two captures at once on one communicator are refused
/// by the runtime if a call in each forks.
class SideStreams {
 public:
  explicit SideStreams(const std::shared_ptr<Backend>& backend)
      : plain_(backend), captured_(backend) {}
  SideStream& of(bool capturing) { return capturing ? captured_ : plain_; }

 private:
  SideStream plain_, captured_;
};

}  // namespace plait
