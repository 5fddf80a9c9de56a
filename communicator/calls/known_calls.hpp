// Calls that a communicator has seen before, and how it enqueued them.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/contract/launch_record.hpp"
#include "communicator/calls/publisher.hpp"
#include "communicator/groups/grouped_call.hpp"
#include "plait/call.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// What the user passed, except the stream and `CallOptions::blocking`.
struct Request {
  Call call;                   // for messages: their type
  const void* send = nullptr;  // of a collective
  void* recv = nullptr;
  std::span<const MessageEnd> ends{};  // of messages
  const CallOptions& options;
};

/// The state of a communicator that its launches depend on: how often symmetric memory has been
/// allocated, and scratch memory has been granted.
struct MemoryState {
  std::size_t allocations = 0, grants = 0;
  friend bool operator==(const MemoryState&, const MemoryState&) = default;
};

/// A call that was checked, planned and launched before. A request that is equal is enqueued by
/// publishing `announcements` and repeating `launch`.
///
/// Why it need not be checked and planned again. What the checks and the choice depend on is in the
/// request, is the same for the life of the communicator, or is compared here: the memory's state,
/// and whether the symmetric memory in which the buffers lay still lives, also where it is the
/// program's. (If it was freed, other memory may be at its addresses.) What a stream, a group, a
/// capture or a broken communicator forbid is checked for each call. A launch itself may be
/// repeated because graphs repeat it.
struct KnownCall {
  bool answers(const Request& request, const MemoryState& now) const;
  /// Keeps the request and makes the call repeatable. The caller has filled in the rest.
  void keep(const Request& request, const MemoryState& now);

  std::vector<CallPublisher::Announcement> announcements;
  std::size_t first = 0;      // the announcement whose number the launch has
  std::size_t algorithm = 0;  // its number
  LaunchRecord launch;
  std::vector<std::weak_ptr<const Window>> memory, attached;  // the latter is the program's
  enum class State { empty, repeatable, unrepeatable } state = State::empty;

 private:
  Call call_;
  const void* send_ = nullptr;
  void* recv_ = nullptr;
  std::vector<MessageEnd> ends_;
  CallOptions options_;
  MemoryState memory_state_;
};

/// A cache of known calls, for one thread at a time. A call is kept when it comes a second time, so
/// that calls which come once cost no copies. It then takes the place of one that has not come
/// since its set was last full.
class KnownCalls {
 public:
  /// A call with more ends is not kept. It takes so long that the saving would not show.
  static constexpr std::size_t most_ends = 16;

  struct Found {
    KnownCall* known = nullptr;  // answers the request
    KnownCall* empty = nullptr;  // to be filled once the call is enqueued
  };
  /// At most one of the two pointers is not null.
  Found find(const Request& request, const MemoryState& now) noexcept;
  /// Whether `find` would answer.
  bool has(const Request& request, const MemoryState& now) const;

 private:
  struct Entry {
    std::uint64_t hash = 0;
    bool is_used = false;  // since another call last asked for its place
    std::unique_ptr<KnownCall> call;
  };
  struct Set {
    std::array<Entry, 4> entries;
    std::size_t next = 0;                 // the entry whose place is asked for next
    std::array<std::uint64_t, 8> seen{};  // hashes of the last requests that had no answer
    std::size_t next_seen = 0;
  };
  std::array<Set, 16> sets_;
  Entry* last_ = nullptr;  // of the last request that had an answer
};

}  // namespace plait
