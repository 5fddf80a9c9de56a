// The program's own memory on the host: which ranks of other processes can reach it, and how.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "backends/backend.hpp"

namespace plait::host {

/// Memory of a file that is mapped shared (memory files, MPI's shared windows) is offered with a
/// descriptor of the file or, where its name is gone and this process may not open it, as
/// `mapped_file`; all other by `system_calls`. `ordinal` is the PID. Throws Error(invalid_argument)
/// if a page is not mapped, or can't be written.
MemoryOffer offer(void* pointer, std::size_t bytes, UniqueFd& descriptor);

/// As Backend::can_map.
bool can_map(const MemoryOffer& offer);
/// Throws Error(backend) if a file is shorter than its offer.
std::shared_ptr<SymmetricRange> attach(int rank, std::span<const MemoryOffer> offers,
                                       std::span<UniqueFd> descriptors);

/// For memory of a file that is mapped shared: a number of its place in the file. 0 for any other.
/// Takes 0.3 us on Linux 6.11 and newer; older ones have to print the list of all mappings.
std::uint64_t memory_number(const void* pointer, std::size_t bytes);

}  // namespace plait::host
