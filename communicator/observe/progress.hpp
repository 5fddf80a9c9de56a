// What blocks leave in device memory while they run (backends/device/block_log.hpp), read from
// there.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "backends/backend.hpp"
#include "plait/progress.hpp"

namespace plait {

/// The counters of a communicator's blocks and, for a trace, the rings of their spans. Kernels must
/// be done before it is destroyed. `read` and `take_spans` may be called from any thread, at any
/// time.
class BlockLog {
 public:
  /// A launch of a block, on the device's clock.
  struct Span {
    std::uint64_t call;
    unsigned block, blocks;  // of so many
    std::uint64_t started_ns, completed_ns;
  };
  /// What one call of `take_spans` found.
  struct Taken {
    std::uint64_t lost = 0;       // spans that were overwritten before they could be read
    std::uint64_t latest_ns = 0;  // the last time that any block has noted, on the device's clock
    std::chrono::steady_clock::time_point read_at{};  // after that time on the host's
  };

  /// Allocates on the current device.
  BlockLog(std::shared_ptr<Backend> backend, bool with_spans);
  ~BlockLog();
  BlockLog(const BlockLog&) = delete;
  BlockLog& operator=(const BlockLog&) = delete;

  void put_into(Watch& watch) const;

  Progress read();
  /// Appends the spans that have been completed since the last call, for each block in order.
  Taken take_spans(std::vector<Span>& into);

 private:
  struct Deallocate {
    Backend* backend;
    void operator()(void* memory) const noexcept { backend->deallocate(memory); }
  };
  struct DeallocatePinned {
    Backend* backend;
    void operator()(void* memory) const noexcept { backend->deallocate_pinned(memory); }
  };
  template <class T>
  using DeviceMemory = std::unique_ptr<T, Deallocate>;
  template <class T>
  using PinnedMemory = std::unique_ptr<T, DeallocatePinned>;
  struct Unread {
    unsigned block;
    std::uint64_t first, count;  // by number of the block's launch
  };

  template <class T>
  DeviceMemory<T> zeroed(std::size_t count);
  template <class T>
  PinnedMemory<T> pinned(std::size_t count);
  std::span<const BlockProgress> peek_progress();
  void peek_spans(std::span<const Unread> pieces);
  void keep_whole(std::span<const Unread> pieces, std::vector<Span>& into);

  std::shared_ptr<Backend> backend_;
  std::mutex mutex_;  // of all that follows
  DeviceMemory<BlockProgress> progress_;
  DeviceMemory<BlockSpan> spans_;
  PinnedMemory<BlockProgress> progress_seen_;
  PinnedMemory<BlockSpan> spans_seen_;
  NativeStream stream_ = nullptr;
  std::vector<std::uint64_t> taken_;  // spans of each block
};

}  // namespace plait
