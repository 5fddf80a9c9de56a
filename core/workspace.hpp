// The memory that algorithms keep for the life of a communicator.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "core/algorithm.hpp"
#include "symm_mem/window.hpp"

namespace plait {

/// One symmetric window and one private block of counters, divided among the algorithms.
class AlgorithmMemory {
 public:
  /// Collective. Throws Error(invalid_argument) if the algorithms need more than the topology's `scratch_limit`.
  AlgorithmMemory(const std::shared_ptr<Backend>& backend, Bootstrap& bootstrap, SymmetricHeap& heap, const Topology& topology,
                  const std::vector<const Algorithm*>& algorithms);

  const AlgorithmGrant& of(std::size_t algorithm) const { return grants_[algorithm]; }
  /// Set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Deallocate {
    std::shared_ptr<Backend> backend;
    void operator()(std::uint32_t* pointer) const noexcept { backend->deallocate(pointer); }
  };
  std::unique_ptr<std::uint32_t, Deallocate> counters_;  // the first one is `claimed`; outlives the window, whose end waits for the device
  std::shared_ptr<Window> window_;
  std::vector<AlgorithmGrant> grants_;
  std::size_t bytes_ = 0;
};

}  // namespace plait
