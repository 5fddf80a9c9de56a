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
  AlgorithmMemory(std::shared_ptr<Backend> backend, Bootstrap& bootstrap, SymmetricHeap& heap, const Topology& topology,
                  const std::vector<const Algorithm*>& algorithms);
  ~AlgorithmMemory();
  AlgorithmMemory(const AlgorithmMemory&) = delete;
  AlgorithmMemory& operator=(const AlgorithmMemory&) = delete;

  const Grant& of(std::size_t algorithm) const { return grants_[algorithm]; }
  /// Set by the first spin of a kernel that expires.
  std::uint32_t* claimed() const { return counters_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Backend> backend_;
  std::shared_ptr<Window> window_;
  std::uint32_t* counters_ = nullptr;  // the first one is `claimed`
  std::vector<Grant> grants_;
  std::size_t bytes_ = 0;
};

}  // namespace plait
