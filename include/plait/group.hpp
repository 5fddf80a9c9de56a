// Groups: several calls, planned together and enqueued at once.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <exception>

#include "plait/language.hpp"

namespace plait {

/// Opens a group. Until `group_end` this thread's calls, on any communicators and any streams, are
/// only collected. The end plans and enqueues them together, which costs less than enqueuing them
/// one by one: calls of one type and operation share launches if they are not large.
///
/// - Groups nest. Only the outermost end enqueues.
/// - All ranks of a communicator make its collectives in the same order and in the same groups.
/// - Calls of several communicators may come in any order, a different one on each rank, also if
///   all are on one stream. A rank may have calls of some of them only. But two communicators that
///   one rank calls in one group are in one group on every rank that calls both.
/// - Calls of a group may run in any order and at the same time: no call may read or write what
///   another call of the group writes, even if the two belong to different communicators. A barrier
///   keeps its place among the calls of its communicator, and orders only those.
/// - Messages (`send`, `recv`) of one communicator all proceed at once, before its collectives of
///   the group. The peer may group its ends differently, provided no ordering of its calls can
///   deadlock. `wait_signal` comes after both.
/// - If calls of one communicator are on several streams, all of them wait for the earlier work on
///   all of these streams, and later work on any of these streams waits for all of them.
/// - Either all streams of a group are being captured in a graph, or none is.
/// - A call that would throw outside a group does not throw inside one. The end throws instead, and
///   enqueues nothing of the group: other ranks that enqueue theirs are told, as for a single call
///   that one rank refuses. It also throws if calls overlap, or if only some of the streams
///   are being captured. An error that comes later, at a launch, aborts all communicators with
///   calls in the group, because other ranks would wait for the calls that were not enqueued.
/// - `synchronize` and `copy` of a communicator with calls in the group are refused: `synchronize`
///   would not wait for these calls, and `copy` would run before them. Destroying a communicator
///   before the group's end drops its calls: there is a warning, the end throws, and nothing of the
///   group is enqueued.
/// - Ordinary memory of the calls, and streams that Plait did not make, must live until the end,
///   because only the end enqueues the calls. Symmetric memory that is freed earlier stays until
///   the end, which frees it and waits for the device to do so. A `Stream` that the group's own
///   thread destroys earlier drops its calls, like a communicator.
void group_start();
/// Throws `Error(invalid_argument)` if no group is open.
void group_end();
/// True while this thread has an open group: calls are collected, and can't be waited for yet.
bool group_is_open() noexcept;

/// A group that ends with its scope. If an exception leaves the scope, nothing of this group and of
/// the groups around it is enqueued.
class Group {
 public:
  // Exceptions are counted here, and not in the library: a program may throw them in a C++ library
  // of its own (-static-libstdc++), and the library would count those of another one.
  Group() : exceptions_(std::uncaught_exceptions()) { group_start(); }
  /// Ends the group unless `end` was called. May throw what `group_end` throws.
  ~Group() noexcept(false) {
    if (open_) leave(std::uncaught_exceptions() > exceptions_);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  /// Throws what `group_end` throws. A second call does nothing.
  void end();

 private:
  static void leave(bool by_exception);

  int exceptions_;
  bool open_ = true;
};

}  // namespace plait
