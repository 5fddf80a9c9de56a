// Calls that were checked and wait to be enqueued, alone or in a group.
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/contract/algorithm.hpp"
#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/fault/call_log.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// A kernel of the program's own with the memory that its arguments view.
struct OwnKernelCall {
  OwnKernel kernel;
  OwnExtents extents;
  std::vector<std::shared_ptr<const Window>> memory;
};

/// A checked call with its choice made.
struct PreparedCall {
  Call call;
  Buffers buffers;
  const Algorithm* algorithm = nullptr;
  LaunchShape shape;
  bool wished = false;  // the user named the algorithm
  bool shares = false;  // it gains by sharing a launch
  bool sends = false;   // for a message: this end sends
  /// It has its place in the order of calls, but launches nothing.
  bool done_already = false;
  Place place{};  // of a call in symmetric memory
  /// The call's symmetric memory, because the user may free it before the call is enqueued.
  std::shared_ptr<const Window> send_memory, recv_memory;
  std::shared_ptr<const OwnKernelCall> own_kernel{};     // that `buffers` names
  std::chrono::steady_clock::time_point begin{}, end{};  // of the preparation, for traces

  /// It is one end of a message, or planned like one.
  bool is_message() const { return call.collective == Collective::send_recv; }
  /// It is a put, a get, a signal or a wait for one, of which the peer is not told.
  bool is_one_sided() const { return buffers.one_sided.kind != Buffers::OneSided::Kind::none; }
  /// Calls `body(window)` for all symmetric memory that it uses.
  template <class Body>
  void for_each_window(Body body) const {
    for (const auto* const memory : {&send_memory, &recv_memory})
      if (*memory != nullptr) body(*memory);
    if (own_kernel != nullptr)
      for (const auto& memory : own_kernel->memory) body(memory);
  }
  /// The peer is told of it, and nothing is sent.
  bool is_empty_message() const { return is_message() && call.count == 0 && !is_one_sided(); }
};

/// One rank's end of a message, as the user asked for it.
struct MessageEnd {
  bool sends;  // else it receives
  int peer;    // the other rank, or proc_null
  void* buffer;
  std::size_t count;
  /// For symmetric messages: the receiver's buffer, by its address on this rank.
  void* receiver = nullptr;
  /// The peer has its end also if the message is empty, so it is told of this one.
  bool always = false;

  friend bool operator==(const MessageEnd&, const MessageEnd&) = default;
};

struct KnownCall;
struct Request;

/// Where a call is kept once it is enqueued, and how the user asked for it. Both live until then.
/// If `known` is null, the call is not kept, and nothing reads `request`.
struct LearnedCall {
  KnownCall* known = nullptr;
  const Request* request = nullptr;
};

/// An entry of a group: a call, an end of a message, or one device's part of a call on several.
struct GroupedCall {
  PreparedCall call;
  NativeStream stream;
  std::size_t number = 1;  // of the call in its group, rising; all parts of a call have the same
  std::size_t step = 0;    // of the plan, that launches it; an empty message has none
  LearnedCall learned{};   // for the only call of its plan
};

/// Calls `body(begin, end)` for each stretch of calls between barriers, and for each barrier alone.
template <class Body>
void for_each_stretch(std::span<const GroupedCall> calls, Body body) {
  const auto is_barrier = [&](std::size_t i) {
    return calls[i].call.call.collective == Collective::barrier;
  };
  for (std::size_t begin = 0; begin < calls.size();) {
    std::size_t end = begin + 1;
    if (!is_barrier(begin))
      while (end < calls.size() && !is_barrier(end)) ++end;
    body(begin, end);
    begin = end;
  }
}

}  // namespace plait
