// Whether a transport can use memory, found out before anything depends on it.
#pragma once
#include <cstddef>
#include <span>

#include "transport/transport.hpp"

namespace plait::transport {

/// Registers `sent` and `received` with flows of this rank to itself, and ends both. Local. Throws
/// Error(unsupported), with the reason, if that fails or takes more than 10 s.
void try_to_register(Transport& transport, std::span<std::byte> sent, std::span<std::byte> received,
                     MemoryKind kind);

}  // namespace plait::transport
