// What the host hands to a kernel and gets back from it: trivially copyable, the same bytes on
// every target.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/device/target.hpp"

namespace plait {

/// Blocks and threads of one launch. Equal on all ranks of a call.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;  // per block
  friend constexpr bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

/// A symmetric allocation as a kernel of one rank sees it: where every rank's copy lies in this
/// rank's address space.
struct WindowView {
  std::byte* own = nullptr;  // this rank's copy
  std::ptrdiff_t stride =
      0;  // from a rank's copy to the next one's, where the target can lay them out so
  const std::ptrdiff_t* distances =
      nullptr;   // else, in device memory: from the own copy to rank r's
  int rank = 0;  // this rank

  PLAIT_DEVICE std::byte* peer_ptr(int peer, std::size_t offset = 0) const {
    return own + (distances != nullptr ? distances[peer] : (peer - rank) * stride) + offset;
  }
  PLAIT_DEVICE WindowView at(std::size_t offset) const {
    return {own + offset, stride, distances, rank};
  }
};

/// Whom a spin waits for, for the record that is written if it never ends.
struct Waiting {
  int peer;
  std::uint32_t step;
};

/// Why a kernel left a spin before its end: its time was over, it was told to, or a peer's memory
/// can't be read (not mapped, or the system refuses).
enum GaveUp : std::uint32_t { out_of_time = 1, told_to = 2, unreadable = 3 };

/// What a kernel leaves in host memory when it left a spin before its end: who waited where for
/// whom.
struct DiagnosticRecord {
  std::uint32_t state;  // 0: nothing happened; else the fields below are written (stored last, with
                        // release): a GaveUp
  std::int32_t rank;    // the rank that gave up
  std::int32_t peer;    // the rank it waited for
  std::uint32_t algorithm;  // index among the communicator's algorithms
  std::uint32_t block;
  std::uint32_t step;            // algorithm-specific: round, hop or chunk
  std::uint32_t expected, seen;  // values of the epoch or counter
  std::uint64_t call;            // sequence number of the call
};

/// How far a block has come, in device memory that the host reads while kernels run. One launch
/// after another writes it, each word by itself.
struct alignas(32) BlockProgress {
  std::uint64_t started, completed;        // launches of the communicator that had this block
  std::uint64_t started_ns, completed_ns;  // when the latest of them did, on the device's clock
};

/// One launch of a block, for traces. Its words may reach the reader one by one, and a later launch
/// may be writing over them: who reads a span knows by the seal whether it is whole.
struct alignas(32) BlockSpan {
  std::uint64_t seal;
  std::uint64_t call;  // see `span_call`
  std::uint64_t started_ns, completed_ns;

  /// Of launch `number` of this block, counted from 0.
  PLAIT_DEVICE static std::uint64_t sealed(std::uint64_t number, std::uint64_t call,
                                           std::uint64_t started, std::uint64_t completed) {
    return number + call + started + completed;
  }
};

inline constexpr unsigned counted_blocks = 1024;  // of a launch; those beyond are not counted
inline constexpr unsigned span_ring =
    1024;  // spans of a block that are kept until the host has read them

/// A call and the blocks of its launch in one word. Calls of one number may have several launches:
/// copies between them, or replays.
inline constexpr unsigned span_call_bits = 48;
PLAIT_DEVICE std::uint64_t span_call(std::uint64_t call, unsigned blocks) {
  return (call & ((std::uint64_t{1} << span_call_bits) - 1)) |
         (std::uint64_t{blocks < 0xffffu ? blocks : 0xffffu} << span_call_bits);
}

/// Limits a kernel's spins, and says where it counts. Every launch gets a copy.
struct Watch {
  const std::uint32_t* abort = nullptr;  // host memory; non-zero: give up now
  DiagnosticRecord* record = nullptr;    // host memory
  std::uint32_t* claimed =
      nullptr;  // device memory; the first spin that expires sets it, and all others then give up
  std::uint64_t timeout_ns = 0;  // 0: no deadline
  std::uint64_t call = 0;
  std::uint32_t algorithm = 0;
  std::int32_t rank = 0;
  std::uint32_t spins =
      64;  // host target: looks at what a spin waits for before it begins to give its core away
  BlockProgress* progress = nullptr;  // device memory, one for each of the first `counted_blocks`
                                      // blocks; null: nothing is counted
  BlockSpan* spans =
      nullptr;  // device memory, a ring of `span_ring` for each of these blocks; null: no trace
};

/// Everything in the record but its state, which the target stores after it.
PLAIT_DEVICE void describe(DiagnosticRecord& record, const Watch& watch, std::uint32_t block,
                           Waiting who, std::uint32_t expected, std::uint32_t seen) {
  record.rank = watch.rank;
  record.peer = who.peer;
  record.algorithm = watch.algorithm;
  record.block = block;
  record.step = who.step;
  record.expected = expected;
  record.seen = seen;
  record.call = watch.call;
}

/// Bytes of kernel arguments that every target accepts beside a `Watch`: 4 KB together.
inline constexpr std::size_t max_kernel_args = 3968;
static_assert(max_kernel_args + sizeof(Watch) <= 4096);

}  // namespace plait
