// Symmetric memory: allocations of equal size on every rank, or the program's own memory, where
// every rank can reach every other rank's copy.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"
#include "plait/calls_on_windows.hpp"
#include "symm_mem/window_table.hpp"

namespace plait {

/// Ranges that live as long as their communicator.
using KeptRanges = std::vector<std::shared_ptr<SymmetricRange>>;

/// What a window of the program's memory has besides.
struct Attachment {
  WindowUse use;
  std::uint64_t memory;              // its `Backend::memory_number`; 0: it has none
  std::shared_ptr<KeptRanges> kept;  // of the heap
  std::vector<MemoryOffer> offers;   // of all ranks
};

/// One piece of symmetric memory, as one rank holds it.
class Window {
 public:
  /// `number`: the number of this window in its heap, in the order of the calls, so equal on all
  /// ranks.
  Window(std::shared_ptr<Backend> backend, const std::shared_ptr<SymmetricRange>& range, int rank,
         std::size_t bytes, std::size_t number)
      : Window(std::move(backend), range, rank, range->address(rank), bytes, number, {}) {}
  /// Of the program's memory at `local`. `range` is null if ranks reach it by system calls only.
  Window(std::shared_ptr<Backend> backend, std::shared_ptr<SymmetricRange> range, int rank,
         void* local, std::size_t bytes, std::size_t number, std::optional<Attachment> attachment)
      : backend_(std::move(backend)),
        range_(std::move(range)),
        rank_(rank),
        local_(static_cast<std::byte*>(local)),
        bytes_(bytes),
        number_(number),
        attachment_(std::move(attachment)) {}
  /// Waits for this rank's device, then unmaps. Does neither in a child made by fork. The peers'
  /// mappings keep this rank's memory alive until the peers unmap it, too, so no rank has to wait
  /// for another.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  /// Does now what the destructor would do.
  void unmap();
  /// Adds this rank's copy to the table until the end.
  void enter(std::shared_ptr<WindowTable> table);

  bool is_attached() const noexcept { return attachment_.has_value(); }
  /// Whether collectives may use it as symmetric memory.
  bool serves_collectives() const noexcept {
    return is_mapped() && (!attachment_ || attachment_->use == WindowUse::all_calls);
  }
  /// The offers of all ranks. Only for attached windows.
  const std::vector<MemoryOffer>& offers() const { return attachment_->offers; }
  /// Of rank `peer`'s copy.
  std::size_t bytes_of(int peer) const {
    return attachment_ ? attachment_->offers[static_cast<std::size_t>(peer)].bytes : bytes_;
  }
  /// Where the memory of rank `peer` lies in its process, and the handle by which system calls read
  /// it. Only for memory that is not mapped.
  std::pair<std::byte*, std::int32_t> elsewhere(int peer) const;
  /// False if it was detached, or ranks reach it by system calls only.
  bool is_mapped() const noexcept { return range_ != nullptr; }
  /// Whether this rank loads and stores rank `peer`'s copy. Only for attached windows.
  bool reaches(int peer) const {
    return is_mapped() && offers()[static_cast<std::size_t>(peer)].process != 0;
  }
  /// Whether the program has freed the memory. Peers may still have the old memory mapped.
  bool is_stale() const;
  /// Says that a graph will use the memory. From then on the mappings live as long as the
  /// communicator, because a replay may come after `detach`.
  void note_capture() const noexcept { captured_.store(true, std::memory_order_relaxed); }

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t number() const noexcept { return number_; }
  /// The committed bytes of this rank's copy; see SymmetricRange.
  std::size_t committed() const { return range_->committed(rank_); }
  /// For kernels: `view().peer_ptr(rank, offset)`.
  WindowView view() const noexcept { return range_->view(rank_); }
  const SymmetricRange& range() const noexcept { return *range_; }
  std::byte* local() const noexcept { return local_; }
  /// Rank `peer`'s copy in this rank's address space: of a rank of this node. For `peer == rank`,
  /// the local pointer.
  std::byte* peer(int peer, std::size_t offset = 0) const noexcept {
    return range_->address(peer) + offset;
  }

 private:
  /// Takes this rank's copy out of the table. False: it is in none.
  bool withdraw();

  Origin origin_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<SymmetricRange> range_;
  int rank_;
  std::byte* local_;
  std::size_t bytes_, number_;
  std::optional<Attachment> attachment_;
  mutable std::atomic<bool> captured_ = false;
  std::shared_ptr<WindowTable> table_;  // that has this rank's copy; may be null
};

/// A number for `Backend::reserve` that no other range has.
std::uint64_t draw_token();

/// The windows of one communicator.
class SymmetricHeap {
 public:
  /// `nodes`: where the ranks of `bootstrap` are; null if all are on one node. Copies of ranks on
  /// other nodes are out of reach.
  SymmetricHeap(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                const Nodes* nodes = nullptr)
      : backend_(std::move(backend)),
        bootstrap_(bootstrap),
        nodes_(nodes),
        table_(nodes != nullptr ? std::make_shared<WindowTable>() : nullptr) {}

  /// Collective. Returns zeroed memory. All ranks throw the same `Error`: `mismatch` if sizes
  /// differ (it names the ranks), `invalid_argument` for more than a quarter of the address space,
  /// `out_of_memory` if a rank runs out, `no_peer_access` if a rank can't map a peer's memory.
  /// `what` names the caller in messages.
  std::shared_ptr<Window> allocate(std::size_t bytes, const char* what = "allocate",
                                   Commit commit = Commit::at_once);

  /// The same, but returns the mapping alone, for memory that `find` need not know.
  std::shared_ptr<SymmetricRange> allocate_range(std::size_t bytes, const char* what,
                                                 Commit commit = Commit::at_once);
  /// The same, for the library's own memory, as a step of an agreement. Collective over the ranks
  /// of this node. All ranks of all nodes pass the same; `token`: a number that they agree on, for
  /// this range alone.
  std::shared_ptr<SymmetricRange> allocate_here(std::size_t bytes, std::uint64_t token,
                                                const char* what, Commit commit);

  /// Collective. A window of the program's memory, which may have another size and address on each
  /// rank. All ranks throw the same `Error`, and nothing is attached: `invalid_argument` if one
  /// passes memory that its peers can't reach, that is not aligned to 16 bytes or that overlaps a
  /// window, `no_peer_access` if devices can't reach it, `out_of_memory`.
  std::shared_ptr<Window> attach(void* pointer, std::size_t bytes,
                                 WindowUse use = WindowUse::all_calls);
  /// Collective. When it returns, no rank has the memory mapped, except for graphs. All ranks throw
  /// the same `Error`: `invalid_argument` if one passes no window of `attach`, or one that was
  /// detached; `mismatch` if they pass different ones.
  void detach(const std::shared_ptr<Window>& window);

  /// False if `pointer` lies outside the addresses from the first window to the last, as most
  /// ordinary memory does. Costs no search.
  bool may_hold(const void* pointer) const {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    return address >= lowest_ && address <= highest_;
  }
  /// The window for collectives that has `pointer` inside or at the end of this rank's copy, or
  /// null. Local: never communicates.
  std::shared_ptr<Window> at(const void* pointer) const;
  /// The window that holds [pointer, pointer + bytes) in this rank's copy, or null. Local: never
  /// communicates.
  std::shared_ptr<Window> find(const void* pointer, std::size_t bytes) const;
  /// The window of this number, or null. Local.
  std::shared_ptr<Window> numbered(std::size_t number) const;
  /// Whether it is a living window of this heap: allocated, or attached and not detached.
  bool owns(const Window& window) const;
  /// This rank's copies of all windows; null on one node.
  const std::shared_ptr<WindowTable>& table() const noexcept { return table_; }
  /// How often memory has been allocated, attached or detached.
  std::size_t allocations() const noexcept { return allocations_; }

 private:
  std::uint64_t check_equal(std::size_t bytes, const char* what);
  void check_room(std::size_t bytes, const char* what);
  void check_new(const void* pointer, std::size_t bytes);
  std::shared_ptr<SymmetricRange> map(const std::vector<MemoryOffer>& offers, const UniqueFd& mine);
  void enter(const std::shared_ptr<Window>& window);

  std::shared_ptr<Backend> backend_;
  Bootstrap& bootstrap_;
  const Nodes* nodes_;
  std::shared_ptr<WindowTable> table_;
  std::size_t allocations_ = 0;
  std::shared_ptr<KeptRanges> kept_ = std::make_shared<KeptRanges>();
  struct Entry {
    std::weak_ptr<Window> window;
    std::size_t bytes = 0;  // so `at` needs no lock for pointers in no window, which are most
  };
  // By local address. The next allocation removes expired entries.
  std::map<const std::byte*, Entry> windows_;
  // Of all entries. A heap without any holds no pointer.
  std::uintptr_t lowest_ = std::numeric_limits<std::uintptr_t>::max(), highest_ = 0;
};

}  // namespace plait
