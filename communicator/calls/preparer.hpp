// From a call's arguments to a prepared call: four steps, each of which may refuse the call.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "communicator/calls/known_calls.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "communicator/resources/resources.hpp"
#include "communicator/selection/choice_log.hpp"
#include "core/log.hpp"

namespace plait {

/// Sends nothing to the device or to another rank. All steps throw Error(invalid_argument) or
/// Error(unsupported), which names the call, the rank and the values.
class CallPreparer {
 public:
  explicit CallPreparer(const CommunicatorResources& own) : own_(own) {
    if (log::says_choices()) choices_.emplace(own.selector, own.rank(), own.size());
  }

  /// Step 1 for a collective: the call as all ranks describe it, and the buffers that this rank
  /// must have.
  void describe(PreparedCall& prepared, const Request& request) const;
  /// Step 1 for one end of a message.
  void describe_end(PreparedCall& prepared, DataType type, const MessageEnd& end) const;

  /// Step 2: checks arguments, buffers and stream.
  void check(const PreparedCall& prepared, const CallOptions& options, NativeStream stream) const;
  /// Step 2 for all ends of messages that one call makes. `what`: the call, as the user wrote it.
  void check_ends(std::string_view what, const Request& request, NativeStream stream) const;

  /// Refuses a blocking call that would wait for work that can't begin yet.
  void check_may_block(std::string_view what, NativeStream stream) const;
  /// Only what step 2 checks of the stream.
  void check_stream(std::string_view what, NativeStream stream, const CallOptions& options) const {
    check_stream(what, stream);
    if (options.blocking) check_may_block(what, stream);
  }

  /// Step 3: finds out whether the buffers lie in symmetric memory, and where.
  void locate(PreparedCall& prepared) const;
  /// Step 3 for one end of a message.
  void locate_end(PreparedCall& prepared, std::string_view what, const MessageEnd& end,
                  const CallOptions& options) const;

  /// Step 4: chooses the algorithm and its launch shape.
  void choose(PreparedCall& prepared, const CallOptions& options);
  /// Step 4 for a call without data: checks only the names in `options`.
  void choose_nothing(const PreparedCall& prepared, const CallOptions& options) const {
    own_.selector.check_known(prepared.call.collective, options);
  }
  /// The algorithm for calls like this one that share launches; null if none gains by it.
  const Algorithm* choose_batch(const Call& call);
  /// Turns PLAIT_LOG=select off, for a communicator that only measures.
  void say_no_choices() { choices_.reset(); }
  bool says_choices() const noexcept { return choices_.has_value(); }

  /// The symmetric memory that a buffer lies in; null if it is ordinary. Throws if the buffer
  /// begins in symmetric memory and ends beyond it.
  std::shared_ptr<Window> find(std::string_view what, const char* buffer, const void* pointer,
                               std::size_t bytes) const;

 private:
  /// The choice for calls without options.
  struct CachedChoice {
    Choice choice;
    bool shares;
    const Algorithm* in_batch;  // for calls of this total size
  };
  struct CallHash {
    std::size_t operator()(const Call& call) const noexcept;
  };
  /// The choice for a call that names an algorithm or a shape.
  struct NamedChoice {
    Call call;
    std::string name;
    unsigned blocks, threads;
    Choice choice;
  };
  const CachedChoice& cached(const Call& call);
  const Choice& named(const Call& call, const CallOptions& options);
  void check_stream(std::string_view what, NativeStream stream) const;
  void locate_receiver(PreparedCall& prepared, void* receiver) const;

  const CommunicatorResources& own_;
  std::unordered_map<Call, CachedChoice, CallHash> cache_;
  // The latest one of each kind, because the next call is often the same. A search in the cache, or
  // parsing a name, takes longer than a small call.
  const std::pair<const Call, CachedChoice>* last_ = nullptr;
  std::optional<NamedChoice> last_named_;
  std::optional<ChoiceLog> choices_;  // for PLAIT_LOG=select
};

}  // namespace plait
