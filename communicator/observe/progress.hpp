// Reads the counters and spans that blocks leave in device memory while they run
// (backends/device/block_log.hpp).
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "plait/progress.hpp"
#include "symm_mem/own_memory.hpp"

namespace plait {

/// The counters of a communicator's blocks and, for a trace, the rings of their spans. All kernels
/// must end before it is destroyed. Any thread may call `read` and `take_spans`, at any time.
class BlockLog {
 public:
  /// One launch of a block. Times are on the device's clock.
  struct Span {
    std::uint64_t call;
    unsigned block, blocks;  // its index, and the number of blocks in the launch
    std::uint64_t started_ns, completed_ns;
  };
  /// The result of one `take_spans`, beside the spans.
  struct Taken {
    std::uint64_t lost = 0;       // spans that were overwritten before they could be read
    std::uint64_t latest_ns = 0;  // the latest time that a block has noted, on the device's clock
    std::chrono::steady_clock::time_point read_at{};  // on the host's clock, after `latest_ns`
  };

  /// Allocates on the current device.
  BlockLog(std::shared_ptr<Backend> backend, bool with_spans);
  ~BlockLog();
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  void put_into(Watch& watch) const;

  /// Copies the counters from the device and waits for that.
  Progress read();
  /// Appends the spans completed since the last call. Those of one block are in order.
  Taken take_spans(std::vector<Span>& into);

 private:
  struct Unread {  // a run of spans of one block
    unsigned block;
    std::uint64_t first, count;  // in launches of the block
  };

  std::span<const BlockProgress> peek_progress();
  void peek_spans(std::span<const Unread> runs);
  void keep_whole(std::span<const Unread> runs, std::vector<Span>& into);

  std::shared_ptr<Backend> backend_;
  std::mutex mutex_;  // guards all members below
  DeviceMemory<BlockProgress> progress_;
  DeviceMemory<BlockSpan> spans_;
  PinnedMemory<BlockProgress> progress_seen_;
  PinnedMemory<BlockSpan> spans_seen_;
  NativeStream stream_ = nullptr;
  std::vector<std::uint64_t> taken_;  // spans, per block
};

}  // namespace plait
