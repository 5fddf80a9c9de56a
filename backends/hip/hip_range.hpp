// Symmetric memory on HIP.
#pragma once
#include <memory>

#include "backends/backend.hpp"

namespace plait::hip {

/// Allocations of this size and multiples of it are never parts of a larger one (CUDA's rule; a
/// page of AMD's devices is as large).
inline constexpr std::size_t granularity = std::size_t{2} << 20;

/// A range of `ranks` times `bytes`, rounded up to the granularity, for device `ordinal`.
std::shared_ptr<SymmetricRange> make_range(int ranks, std::size_t bytes, int ordinal);

}  // namespace plait::hip
