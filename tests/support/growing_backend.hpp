// A target on which communicators get scratch memory as calls need it: the host's, with memory that
// is committed at once, as a GPU's is.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "support/forwarding_backend.hpp"

namespace plait::test {

/// Stands in for CUDA. Every rank has its own device.
class GrowingBackend final : public HostAsCuda {
 public:
  explicit GrowingBackend(int ordinal) : HostAsCuda(ordinal, "growing" + std::to_string(ordinal)) {
    info_.facts.block_threads = 2;  // shapes for GPUs have half of them, too
    info_.facts.max_block_threads = 512;
  }

  /// Called before memory is allocated, with its bytes; may throw.
  static inline std::function<void(std::size_t)> before_reserve;

  bool commits_on_touch() const override { return false; }
  std::shared_ptr<ReservedRange> reserve(int ranks, std::size_t bytes, std::uint64_t token,
                                         Commit) override {
    if (before_reserve) before_reserve(bytes);
    return ForwardingBackend::reserve(ranks, bytes, token, Commit::at_once);
  }
};

}  // namespace plait::test
