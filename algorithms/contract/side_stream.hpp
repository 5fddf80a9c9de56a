// A second stream, on which a part of a call runs beside the rest.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "backends/backend.hpp"

namespace plait {

/// Created once per communicator, so that a call creates nothing. One call at a time uses it,
/// between `fork` and `join`, because the calls of a communicator are ordered
/// (communicator/resources/stream_order.hpp). A capture takes the stream in at `fork` and keeps it
/// until the capture ends, so captured calls need another one (`SideStreams`).
class SideStream {
 public:
  explicit SideStream(std::shared_ptr<Backend> backend);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

  /// Returns the stream for work beside `stream`. Its work begins when everything that was enqueued
  /// in `stream` so far is done. Returns `stream` itself where the target can't capture a second
  /// stream.
  NativeStream fork(NativeStream stream);
  /// Work that is enqueued in `stream` from now on waits for all work in the side stream.
  void join(NativeStream stream);

 private:
  std::shared_ptr<Backend> backend_;
  std::unique_ptr<DeviceEvent> forked_, joined_;
  NativeStream side_ = nullptr;  // null where the target can't capture a second stream
};

/// One stream for plain calls and one for captured calls, because a stream stays a part of a
/// capture until the capture ends, and plain calls may come in between. The runtime refuses two
/// captures at once on one communicator if a call in each forks.
class SideStreams {
 public:
  explicit SideStreams(const std::shared_ptr<Backend>& backend)
      : plain_(backend), captured_(backend) {}
  SideStream& of(bool capturing) { return capturing ? captured_ : plain_; }

 private:
  SideStream plain_, captured_;
};

}  // namespace plait
