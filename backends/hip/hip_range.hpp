// Symmetric memory on HIP.
#pragma once
#include <memory>

#include "backends/backend.hpp"

namespace plait::hip {

/// Allocations of a multiple of this size are never part of a larger allocation (CUDA's rule; a
/// page of AMD's devices has the same size).
inline constexpr std::size_t granularity = std::size_t{2} << 20;

/// A range of `bytes` bytes per rank, rounded up to the granularity, for device `ordinal`.
std::shared_ptr<ReservedRange> make_range(int ranks, std::size_t bytes, int ordinal);

/// No descriptor if the runtime refuses.
DmaBuf export_dma_buf(void* address, std::size_t bytes);

}  // namespace plait::hip
