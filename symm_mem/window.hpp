// Symmetric memory: allocations of equal size on every rank, where every rank can reach every other
// rank's copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "core/process.hpp"
#include "plait/bootstrap.hpp"

namespace plait {

/// One symmetric allocation, as one rank holds it.
class Window {
 public:
  /// `number`: the number of this allocation in its heap, in the order of the calls, so equal on
  /// all ranks.
  Window(std::shared_ptr<Backend> backend, std::shared_ptr<SymmetricRange> range, int rank,
         std::size_t bytes, std::size_t number);
  /// Waits for this rank's device, then unmaps. Does neither in a child made by fork. The peers'
  /// mappings keep this rank's memory alive until the peers unmap it, too, so no rank has to wait
  /// for another.
  ~Window();
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t number() const noexcept { return number_; }
  /// The committed bytes of this rank's copy; see SymmetricRange.
  std::size_t committed() const { return range_->committed(rank_); }
  /// For kernels: `view().peer_ptr(rank, offset)`.
  WindowView view() const noexcept { return range_->view(rank_); }
  const SymmetricRange& range() const noexcept { return *range_; }
  std::byte* local() const noexcept { return range_->address(rank_); }
  /// Rank `peer`'s copy in this rank's address space. For `peer == rank`, the local pointer. Of a
  /// copy on another node only parts with a stand-in may be used: memory of this node, from which
  /// the proxy sends.
  std::byte* peer(int peer, std::size_t offset = 0) const noexcept {
    return range_->address(peer) + offset;
  }

 private:
  Origin origin_;
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<SymmetricRange> range_;
  int rank_;
  std::size_t bytes_, number_;
};

/// A part of a copy on another node that has a stand-in (`SymmetricRange::stand_in`).
struct StandIn {
  std::size_t offset, bytes;
};
/// Those of a rank's copy.
using StandIns = std::function<std::vector<StandIn>(int rank)>;

/// A number for `Backend::reserve` that no other range has.
std::uint64_t draw_token();

/// The windows of one communicator.
class SymmetricHeap {
 public:
  /// `nodes`: where the ranks of `bootstrap` are; null if all are on one node. Copies of ranks on
  /// other nodes are out of reach, but for stand-ins.
  SymmetricHeap(std::shared_ptr<Backend> backend, Bootstrap& bootstrap,
                const Nodes* nodes = nullptr)
      : backend_(std::move(backend)), bootstrap_(bootstrap), nodes_(nodes) {}

  /// Collective. Returns zeroed memory. All ranks throw the same `Error`: `mismatch` if sizes
  /// differ (it names the ranks), `invalid_argument` for more than a quarter of the address space,
  /// `out_of_memory` if a rank runs out, `no_peer_access` if a rank can't map a peer's memory.
  /// `what` names the caller in messages.
  std::shared_ptr<Window> allocate(std::size_t bytes, const char* what = "allocate",
                                   Commit commit = Commit::at_once);

  /// The same, but returns the mapping alone, for memory that `find` need not know.
  std::shared_ptr<SymmetricRange> allocate_range(std::size_t bytes, const char* what,
                                                 Commit commit = Commit::at_once,
                                                 const StandIns& stand_ins = {});

  /// False if `pointer` lies outside the addresses from the first window to the last, as most
  /// ordinary memory does. Costs no search.
  bool may_hold(const void* pointer) const {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    return address >= lowest_ && address <= highest_;
  }
  /// The window that has `pointer` inside or at the end of this rank's copy, or null. Local: never
  /// communicates.
  std::shared_ptr<Window> at(const void* pointer) const;
  /// The window that holds [pointer, pointer + bytes) in this rank's copy, or null. Local: never
  /// communicates.
  std::shared_ptr<Window> find(const void* pointer, std::size_t bytes) const;
  /// How often memory has been allocated.
  std::size_t allocations() const noexcept { return allocations_; }

 private:
  void check_equal(std::size_t bytes, const char* what);
  void check_room(std::size_t bytes, const char* what);
  void connect(SymmetricRange& range, const UniqueFd& mine, const char* what,
               const StandIns& stand_ins);

  std::shared_ptr<Backend> backend_;
  Bootstrap& bootstrap_;
  const Nodes* nodes_;
  std::size_t allocations_ = 0;
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
