// The types that the host passes to a kernel and gets back from it: trivially copyable, the same
// bytes on every target.
#pragma once  // SPDX-License-Identifier: Apache-2.0
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
  /// From one rank's copy to the next one's, where the target can lay them out so.
  std::ptrdiff_t stride = 0;
  /// Otherwise, in device memory: from this rank's copy to rank r's.
  const std::ptrdiff_t* distances = nullptr;
  int rank = 0;  // this rank

  /// From this rank's copy to a peer's.
  PLAIT_DEVICE std::ptrdiff_t distance(int peer) const {
    return distances != nullptr ? distances[peer] : (peer - rank) * stride;
  }
  PLAIT_DEVICE std::byte* peer_ptr(int peer, std::size_t offset = 0) const {
    return own + distance(peer) + offset;
  }
  PLAIT_DEVICE WindowView at(std::size_t offset) const {
    return {own + offset, stride, distances, rank};
  }
};

/// The peer and step that a spin waits for. The diagnostic record names them if the spin never
/// ends.
struct Waiting {
  int peer;
  std::uint32_t step;
};

/// The step of a barrier among the threads of one block, which is a wait only on the host.
inline constexpr std::uint32_t threads_of_the_block = 0xffffffffu;

/// Why a kernel gave up a spin: its time was over, the host told it to, or a peer's memory can't be
/// read (it is not mapped, or the system refuses).
enum GaveUp : std::uint32_t { out_of_time = 1, told_to = 2, unreadable = 3 };

/// The record that a kernel leaves in host memory when it gives up a spin: which rank and block
/// waited for which peer, and where.
struct DiagnosticRecord {
  /// 0: nothing happened. Otherwise a GaveUp, stored last and with release: the fields below are
  /// written.
  std::uint32_t state;
  std::int32_t rank;        // the rank that gave up
  std::int32_t peer;        // the rank it waited for
  std::uint32_t algorithm;  // index among the communicator's algorithms
  std::uint32_t block;
  std::uint32_t step;            // algorithm-specific: round, hop or chunk
  std::uint32_t expected, seen;  // values of the epoch or counter
  std::uint64_t call;            // sequence number of the call
};

/// Progress of one block, in device memory that the host reads while kernels run. One launch after
/// another writes it, and each word is stored separately.
struct alignas(32) BlockProgress {
  std::uint64_t started, completed;        // number of launches that had this block
  std::uint64_t started_ns, completed_ns;  // of the latest of them, on the device's clock
};

/// One launch of a block, for traces. Its words may reach the reader one by one, and a later launch
/// may be writing over them; the seal tells the reader whether the span is whole.
struct alignas(32) BlockSpan {
  std::uint64_t seal;
  std::uint64_t call;  // see `span_call`
  std::uint64_t started_ns, completed_ns;

  /// The seal of launch `number` of this block, counted from 0.
  PLAIT_DEVICE static std::uint64_t sealed(std::uint64_t number, std::uint64_t call,
                                           std::uint64_t started, std::uint64_t completed) {
    return number + call + started + completed;
  }
};

/// Number of blocks of a launch whose progress is counted: the first ones.
inline constexpr unsigned counted_blocks = 1024;
/// Number of spans per block that are kept until the host has read them.
inline constexpr unsigned span_ring = 1024;

/// A call's number and the number of blocks of its launch in one word. Several launches may have
/// the same number: a call may enqueue copies between launches, and a graph may be replayed.
inline constexpr unsigned span_call_bits = 48;
PLAIT_DEVICE std::uint64_t span_call(std::uint64_t call, unsigned blocks) {
  return (call & ((std::uint64_t{1} << span_call_bits) - 1)) |
         (std::uint64_t{blocks < 0xffffu ? blocks : 0xffffu} << span_call_bits);
}

/// Limits how long a kernel may spin, and says where it counts its progress. Every launch gets a
/// copy.
struct Watch {
  const std::uint32_t* abort = nullptr;  // host memory; non-zero: give up now
  DiagnosticRecord* record = nullptr;    // host memory
  /// Device memory. The first spin that expires sets it, and then all others give up.
  std::uint32_t* claimed = nullptr;
  std::uint64_t timeout_ns = 0;  // 0: no deadline
  std::uint64_t call = 0;
  std::uint32_t algorithm = 0;
  std::int32_t rank = 0;
  /// Host target: how often a spin polls before it begins to yield its core.
  std::uint32_t spins = 64;
  /// Host target, with ranks on several nodes: carries chunks to and from the others. Called while
  /// a spin waits for `peer`, and with -1 when a launch has ended. Null: nothing to carry.
  void (*carry)(void* carrier, int peer) = nullptr;
  void* carrier = nullptr;
  /// Device memory: one per block for the first `counted_blocks` blocks. Null: nothing is counted.
  BlockProgress* progress = nullptr;
  /// Device memory: a ring of `span_ring` spans for each of these blocks. Null: no trace.
  BlockSpan* spans = nullptr;
};

/// Fills in everything but the record's state, which the target stores afterwards.
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

/// Bytes of kernel arguments that every target accepts in addition to a `Watch`: 4 KB together.
inline constexpr std::size_t max_kernel_args = 3968;
static_assert(max_kernel_args + sizeof(Watch) <= 4096);

}  // namespace plait
