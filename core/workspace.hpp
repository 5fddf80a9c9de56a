// The memory that algorithms keep for the life of a communicator.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
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
class AlgorithmMemory {
 public:
  /// Collective.
  AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, SymmetricHeap& heap, const Topology& topology,
                  const std::vector<const Algorithm*>& algorithms);

  const AlgorithmGrant& of(std::size_t algorithm) const { return grants_[algorithm]; }
  /// Set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_.get(); }

 private:
  struct Deallocate {
    std::shared_ptr<Backend> backend;
    void operator()(std::uint32_t* pointer) const noexcept { backend->deallocate(pointer); }
  };
  std::unique_ptr<std::uint32_t, Deallocate> counters_;  // the first one is `claimed`; outlives the window, whose end waits for the device
  std::shared_ptr<Window> window_;
  std::vector<AlgorithmGrant> grants_;
};

}  // namespace plait
