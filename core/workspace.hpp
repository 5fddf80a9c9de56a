// The memory that algorithms keep for the life of a communicator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/algorithm.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// Where the memory of each algorithm lies: in a symmetric window, or in a block of counters of the rank's own.
struct MemoryLayout {
  struct Place {
    std::size_t scratch = 0, signals = 0, counters = 0;  // offsets in bytes
  };
  std::size_t symmetric = 0, local = 0;
  std::vector<std::pair<Place, Place>> places;  // of each algorithm, its own and what it shares

  MemoryLayout(const Topology& topology, const std::vector<const Algorithm*>& algorithms);
  std::size_t bytes() const { return symmetric + local; }
};

/// What algorithms are to take their shares of (`Topology::scratch_limit`), so that all together need `limit` bytes at most: the limit
/// itself, or somewhat less if their shares sum to more than that. Throws Error(invalid_argument) if not even the least shares fit.
std::size_t scratch_within(std::size_t limit, Topology topology, const std::vector<const Algorithm*>& algorithms);

/// One symmetric window and one private block of counters, divided among the algorithms.
///
/// On the host target the window's pages are committed as launches touch them, so a communicator that is made and never used costs
/// addresses alone, and one that has few blocks commits little of what it may have. Before a launch touches what no launch has before, its
/// rank looks whether there is room for it on all ranks that share the same memory.
class AlgorithmMemory {
 public:
  /// Collective.
  AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, SymmetricHeap& heap, const Topology& topology,
                  const std::vector<const Algorithm*>& algorithms);

  /// For a launch of `blocks` blocks. Throws Error(out_of_memory) if there is no room for it: the caller breaks the communicator, as the
  /// other ranks count on the call.
  const AlgorithmGrant& of(std::size_t algorithm, unsigned blocks) {
    if (blocks > room_for_[algorithm].blocks) make_room(algorithm, blocks);
    return grants_[algorithm];
  }
  /// Bytes that it may have, and that it has committed.
  std::size_t bytes() const noexcept { return window_->bytes() + local_bytes_; }
  std::size_t committed() const;
  /// Set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_.get(); }

 private:
  struct Deallocate {
    std::shared_ptr<Backend> backend;
    void operator()(std::uint32_t* pointer) const noexcept { backend->deallocate(pointer); }
  };
  void make_room(std::size_t algorithm, unsigned blocks);

  /// Of an algorithm: launches of up to `blocks` have had room. All of its `bytes` belong to `most` blocks, in equal parts.
  struct Room {
    unsigned blocks, most;
    std::size_t bytes;
  };
  std::shared_ptr<Backend> backend_;
  std::vector<Room> room_for_;
  std::map<std::uint64_t, std::size_t> ranks_under_;  // how many share a limit of memory
  std::vector<std::string> names_;                    // of the algorithms
  std::size_t local_bytes_ = 0;
  std::unique_ptr<std::uint32_t, Deallocate> counters_;  // the first one is `claimed`; outlives the window, whose end waits for the device
  std::shared_ptr<Window> window_;
  std::vector<AlgorithmGrant> grants_;
};

}  // namespace plait
