// Calls that consist of messages.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "communicator/calls/call_path.hpp"
#include "plait/stream.hpp"

namespace plait {

class OpenGroup;

/// The arguments that all ranks pass alike to a call that consists of messages, beside its type and
/// options.
struct CallByAll {
  std::optional<int> root{};
};

/// In each function, `what` is the call as the user wrote it. Blocking calls are checked as such;
/// the caller waits for them.
class MessageCalls {
 public:
  MessageCalls(CommunicatorResources& own, const Faults& faults, CallPath& path)
      : own_(own), faults_(faults), path_(path) {}

  /// Enqueues the ends of messages, all of them or none, or adds them to this thread's group.
  /// `by_all`: for a call in which all ranks take part, which PLAIT_CHECK=1 compares.
  bool call(std::string_view what, const Request& request, StreamRef stream,
            const CallByAll* by_all = nullptr);
  /// Adds the ends to a group, or throws if one is wrong.
  void add_to(OpenGroup& group, std::string_view what, const Request& request, NativeStream stream);

 private:
  using Calls = std::vector<GroupedCall>;
  template <class Refused>
  bool enqueue(std::string_view what, const Request& request, StreamRef stream, Refused refused);
  void prepare(Calls& calls, std::string_view what, const Request& request, NativeStream stream);
  bool prepare_end(PreparedCall& prepared, std::string_view what, const Request& request,
                   const MessageEnd& end);
  void check_among_themselves(const Calls& calls, std::string_view what) const;

  CommunicatorResources& own_;
  const Faults& faults_;
  CallPath& path_;
  KeptPlan kept_;
};

}  // namespace plait
