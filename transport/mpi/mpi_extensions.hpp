// What MPIs offer beyond the standard. The only file that asks for it is mpi_extensions.cpp.
#pragma once
#include "transport/transport.hpp"

namespace plait::transport {

/// True if MPI says that it can send and receive this memory.
bool mpi_takes(MemoryKind kind);
/// True if this status of a call says that a process has ended.
bool is_process_lost(int status);

}  // namespace plait::transport
