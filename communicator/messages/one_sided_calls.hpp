// Calls that one rank makes alone: put, get, and signals.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "communicator/calls/call_path.hpp"
#include "plait/stream.hpp"

namespace plait {

/// What the user passed. A put and a get have a window, a place in it, and a place of this rank's.
struct OneSidedRequest {
  std::string_view what;
  Buffers::OneSided call;
  int peer;
  std::shared_ptr<Window> window{};
  std::size_t offset = 0, bytes = 0;
  void* own = nullptr;
};

class OneSidedCalls {
 public:
  OneSidedCalls(CommunicatorResources& own, CallPath& path) : own_(own), path_(path) {}

  /// Enqueues the call, or adds it to this thread's group. Throws Error(invalid_argument) or
  /// Error(unsupported) before anything is enqueued; no other rank counts on the call.
  void call(const OneSidedRequest& request, StreamRef stream, const CallOptions& options);

 private:
  PreparedCall prepare(const OneSidedRequest& request) const;
  void locate(PreparedCall& prepared, const OneSidedRequest& request) const;

  CommunicatorResources& own_;
  CallPath& path_;
  KeptPlan kept_;
};

}  // namespace plait
