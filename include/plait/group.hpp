// Groups: several calls, planned together and enqueued at once.
#pragma once
#include "plait/language.hpp"

namespace plait {

/// Between `group_start` and `group_end` this thread's calls, of any communicators and on any
/// streams, are only collected. The end plans and enqueues them together, which costs less than one
/// by one: messages of one type and operation that are not large share launches.
///
/// - Groups nest; only the outermost end enqueues.
/// - All ranks make the same collectives in the same groups. Calls of a group may run in any order
/// and at once: what one writes, no other
///   may read or write, also if they are of two communicators. A barrier keeps its place among the
///   calls of its communicator, and orders them alone.
/// - Messages (`send`, `recv`) of a group all proceed at once, before its collectives. Their ends
/// may be grouped otherwise on another rank,
///   if no order of the calls there can block.
/// - Calls of one communicator on several streams wait for what was on any of those streams before,
/// and what comes later on any of them
///   waits for all of those calls.
/// - Either all streams of a group are captured in a graph or none.
/// - A call that would throw does not: the end does, and then nothing of the group is enqueued. The
/// same holds for calls that overlap and
///   for streams of which only some are captured. What fails later, at a launch, aborts all
///   communicators that have calls in the group, as others would wait for what was not enqueued.
/// - `synchronize` and `copy` of a communicator that has calls in the group are refused: the one
/// would wait for nothing, the other would run
///   before the calls. A communicator that is destroyed before the group's end takes its calls with
///   it: there is a warning, and the end throws, with nothing of the group enqueued.
/// - The calls' ordinary memory, and streams that are not Plait's own, must live until the end:
/// only there are the calls enqueued.
///   Symmetric memory that was freed lives on until then; the end frees it, and waits for the
///   device to do so. A `Stream` that the group's own thread destroys before takes its calls with
///   it, like a communicator.
void group_start();
/// Throws `Error(invalid_argument)` without a `group_start` before.
void group_end();
/// Whether this thread has started a group that has not ended: calls are collected, and nothing
/// could wait for them yet.
bool group_is_open() noexcept;

/// A group that ends with a scope. If an exception leaves the scope, nothing of the group is
/// enqueued, nor of those around it.
class Group {
 public:
  Group();
  /// Ends the group, if `end` has not been called. May throw what `group_end` throws.
  ~Group() noexcept(false);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Throws what `group_end` throws. Called again, it does nothing.
  void end();

 private:
  int exceptions_;
  bool open_ = true;
};

}  // namespace plait
