// The program's own memory on HIP.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/backend.hpp"

namespace plait::hip {

/// Offers memory of device `ordinal` by its IPC handle. Errors as for Backend::offer.
MemoryOffer offer(void* pointer, std::size_t bytes, int ordinal, UniqueFd& descriptor);

std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd> descriptors, int ordinal);

/// The runtime's number of the allocation. 0 on NVIDIA GPUs, where HIP's function would link this
/// library to the driver.
std::uint64_t memory_number(const void* pointer);

}  // namespace plait::hip
