// Messages between nodes by MPI, over whatever network the site's MPI knows.
#pragma once
#include <mpi.h>

#include <memory>

#include "transport/transport.hpp"

namespace plait::transport {

/// `comm` belongs to the library: it has no other user than transports, any number of them, and
/// perhaps an MpiLink, whose messages have another tag. It is never freed, because freeing is
/// collective, and notes that flows are closed may come as long as the processes live. Local.
///
/// Addresses work between the ranks of `comm`. MPI must be at MPI_THREAD_MULTIPLE, because the
/// proxy thread calls it beside the program's threads; otherwise throws Error(unsupported).
///
/// MPI can't take a message back. A flow that is destroyed while messages are under way waits for
/// them for at most 100 ms. If the other rank neither takes them nor closes its end by then, their
/// buffers must stay until the process ends.
std::unique_ptr<Transport> make_mpi_transport(MPI_Comm comm);

}  // namespace plait::transport
