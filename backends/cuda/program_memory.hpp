// The program's own memory on CUDA.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/backend.hpp"

namespace plait::cuda {

/// Memory of cuMemCreate is offered by its descriptor, of cudaMalloc by its IPC handle, of a pool
/// that exports by both. `ordinal`: this rank's device. Errors as for Backend::offer.
MemoryOffer offer(void* pointer, std::size_t bytes, int ordinal, UniqueFd& descriptor);

std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd> descriptors, int ordinal);

/// The driver's number of the allocation (CU_POINTER_ATTRIBUTE_BUFFER_ID).
std::uint64_t memory_number(const void* pointer);

}  // namespace plait::cuda
