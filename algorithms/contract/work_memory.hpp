// Memory for the work items of launches that have too many for their arguments.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/contract/event_queue.hpp"
#include "algorithms/contract/work_ring.hpp"
#include "backends/backend.hpp"
#include "plait/statistics.hpp"

namespace plait {

/// Pinned host memory, which kernels read over the bus: a ring for plain launches, whose items are
/// overwritten once their kernel has ended, and memory for captured ones, which may be replayed at
/// any time and so keep theirs as long as the communicator lives.
class WorkMemory {
 public:
  /// Throws what has broken the communicator, if anything: a wait for room ends with it.
  using Check = std::function<void()>;

  WorkMemory(std::shared_ptr<Backend> backend, EventQueue& events, std::size_t ring_bytes,
             Check check);
  ~WorkMemory();
  WorkMemory(const WorkMemory&) = delete;
  WorkMemory& operator=(const WorkMemory&) = delete;

  /// A copy of `items`, which are for so many messages, for the launch that comes next: in `few`,
  /// the launch's own arguments, if they fit there, and then null. While the ring is full, waits
  /// for launches before to end; `Error(unsupported)` if they are more than all of it.
  const std::byte* place(std::span<const std::byte> items, std::span<std::byte> few,
                         std::size_t messages, bool captured);
  /// That launch is on `stream`.
  void launched(NativeStream stream);

  /// The most bytes that one launch can have, on any rank.
  std::size_t most_bytes() const noexcept { return ring_.bytes(); }
  /// Of the statistics, what is about work.
  Statistics statistics() const;

 private:
  struct Deallocate {
    std::shared_ptr<Backend> backend;
    void operator()(std::byte* pointer) const noexcept { backend->deallocate_pinned(pointer); }
  };
  using Pinned = std::unique_ptr<std::byte, Deallocate>;
  Pinned allocate(std::size_t bytes);
  std::byte* from_ring(std::size_t bytes);
  std::byte* for_ever(std::size_t bytes);

  std::shared_ptr<Backend> backend_;
  EventQueue& events_;
  Check check_;
  WorkRing ring_;
  Pinned ring_memory_;
  bool pending_ = false;  // the last place is in the ring, and its launch is to come
  std::uint32_t pending_end_ = 0;
  std::vector<Pinned> kept_;
  std::size_t kept_left_ = 0;  // bytes of the last one that are free
  std::size_t kept_size_ = 0;
  Statistics counts_;
};

}  // namespace plait
