// Symmetric memory on CUDA.
#pragma once
#include <memory>

#include "backends/backend.hpp"

namespace plait::cuda {

/// A range of `bytes` bytes per rank, rounded up to the granularity, for the current device
/// `ordinal`.
std::shared_ptr<ReservedRange> make_range(int ranks, std::size_t bytes, int ordinal);

/// No descriptor if the driver refuses.
DmaBuf export_dma_buf(void* address, std::size_t bytes);

}  // namespace plait::cuda
