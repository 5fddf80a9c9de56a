// What the host hands to a kernel and gets back from it: trivially copyable, the same bytes on every target.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/target.hpp"

namespace plait {

/// Blocks and threads of one launch. Equal on all ranks of a call.
struct LaunchShape {
  unsigned blocks = 1;
  unsigned threads = 1;  // per block
  friend constexpr bool operator==(const LaunchShape&, const LaunchShape&) = default;
};

/// A symmetric allocation as a kernel sees it: rank r's copy lies at `base + r * stride`, in every rank's own address space.
struct WindowView {
  std::byte* base = nullptr;
  std::size_t stride = 0;

  PLAIT_DEVICE std::byte* peer_ptr(int rank, std::size_t offset = 0) const {
    return base + static_cast<std::size_t>(rank) * stride + offset;
  }
  PLAIT_DEVICE WindowView at(std::size_t offset) const { return {base + offset, stride}; }
};

/// Whom a spin waits for, for the record that is written if it never ends.
struct Waiting {
  int peer;
  std::uint32_t step;
};

/// What a kernel leaves in host memory when a spin ran out of time: who waited where for whom.
struct DiagnosticRecord {
  std::uint32_t state;      // 0: nothing happened, 1: the fields below are written (stored last, with release)
  std::int32_t rank;        // the rank that gave up
  std::int32_t peer;        // the rank it waited for
  std::uint32_t algorithm;  // index among the communicator's algorithms
  std::uint32_t block;
  std::uint32_t step;            // algorithm-specific: round, hop or chunk
  std::uint32_t expected, seen;  // values of the epoch or counter
  std::uint64_t call;            // sequence number of the call
};

/// Limits a kernel's spins. Every launch gets a copy.
struct Watch {
  const std::uint32_t* abort = nullptr;  // host memory; non-zero: give up now
  DiagnosticRecord* record = nullptr;    // host memory
  std::uint32_t* claimed = nullptr;      // device memory; the first spin that expires sets it, and all others then give up
  std::uint64_t timeout_ns = 0;          // 0: no deadline
  std::uint64_t call = 0;
  std::uint32_t algorithm = 0;
  std::int32_t rank = 0;
};

/// Everything in the record but its state, which the target stores after it.
PLAIT_DEVICE void describe(DiagnosticRecord& record, const Watch& watch, std::uint32_t block, Waiting who, std::uint32_t expected,
                           std::uint32_t seen) {
  record.rank = watch.rank;
  record.peer = who.peer;
  record.algorithm = watch.algorithm;
  record.block = block;
  record.step = who.step;
  record.expected = expected;
  record.seen = seen;
  record.call = watch.call;
}

/// Bytes of kernel arguments that every target accepts.
inline constexpr std::size_t max_kernel_args = 1024;

}  // namespace plait
