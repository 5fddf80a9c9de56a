// Memory for work items that do not fit in the arguments of a launch.
#pragma once  // SPDX-License-Identifier: Apache-2.0
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

/// Pinned host memory, which kernels read over the bus. Plain launches use a ring, whose items are
/// overwritten once their kernel has ended. Captured launches may be replayed at any time, so they
/// keep their items as long as the communicator lives.
class WorkMemory {
 public:
  /// Throws the error that has broken the communicator, if any, and so ends a wait for room.
  using Check = std::function<void()>;

  WorkMemory(std::shared_ptr<Backend> backend, EventQueue& events, std::size_t ring_bytes,
             Check check);
  ~WorkMemory();
  WorkMemory(const WorkMemory&) = delete;
  WorkMemory& operator=(const WorkMemory&) = delete;

  /// Copies the `items` of the next launch, which are for `messages` messages. If they fit in
  /// `few`, a part of the launch's arguments, they are copied there and null is returned. While the
  /// ring is full, waits for earlier launches to end. Throws Error(unsupported) if the items are
  /// more than the whole ring.
  const std::byte* place(std::span<const std::byte> items, std::span<std::byte> few,
                         std::size_t messages, bool captured);
  /// Counts a launch that has its items in its arguments already.
  void repeat(std::size_t items) {
    ++counts_.in_arguments.launches;
    counts_.in_arguments.items += items;
  }
  /// The launch that `place` was called for has been enqueued in `stream`.
  void launched(NativeStream stream);

  /// The most bytes of work that one launch can have, equal on all ranks.
  std::size_t most_bytes() const noexcept { return ring_.bytes(); }
  /// Only the figures about work are set.
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
  std::size_t kept_left_ = 0;  // free bytes of the last one
  std::size_t kept_size_ = 0;
  Statistics counts_;
};

}  // namespace plait
