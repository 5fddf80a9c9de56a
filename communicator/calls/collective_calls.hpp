// Collective calls: alone, in a group, and several that are one call to the user.
#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "communicator/calls/call_path.hpp"
#include "plait/stream.hpp"

namespace plait {

class OpenGroup;

/// Whether one of the calls may write what another reads or writes. `rank`: makes them all; none:
/// call i is rank i's.
bool may_overlap(std::span<const Request> requests, std::optional<int> rank);

/// Blocking calls are checked as such; the caller waits for them.
class CollectiveCalls {
 public:
  CollectiveCalls(CommunicatorResources& own, const Faults& faults, CallPath& path)
      : own_(own), faults_(faults), path_(path) {}

  /// Enqueues the call, or adds it to this thread's group. True if it blocks and has ended.
  bool call(const Request& request, StreamRef stream);
  /// The same for calls that the user has made as one, `what`: all of them or none.
  void calls(std::string_view what, std::span<const Request> requests, StreamRef stream);
  /// Adds a call to a group, or throws if it is wrong. With PLAIT_CHECK=1 the ranks compare it at
  /// the group's end. `empty`: where it is kept; the group is then of this call alone.
  void add_to(OpenGroup& group, const Request& request, NativeStream stream,
              KnownCall* empty = nullptr);

 private:
  bool enqueue(const Request& request, StreamRef stream);
  void add_requests(std::span<const Request> requests, StreamRef stream);
  bool prepare(PreparedCall& prepared, const Request& request, NativeStream stream);
  void look_at(PreparedCall& prepared, const Request& request, NativeStream stream) const;
  bool choose(PreparedCall& prepared, const CallOptions& options);

  CommunicatorResources& own_;
  const Faults& faults_;
  CallPath& path_;
  KeptPlan kept_;
};

}  // namespace plait
