// MPI's own collectives, as a peer in host memory.
#pragma once
#include <memory>
#include <string>

#include "bench/contender.hpp"

namespace plait::bench {

/// `peer:mpi` on the host target. Its calls run in the order of the stream, on the thread that
/// serves it. If `on_stream` is false, they run on the calling thread, as a program calls MPI. MPI
/// must have been initialised with MPI_THREAD_SERIALIZED at least, and no other thread may call MPI
/// before the stream is empty. Collective. Null if the target or MPI does not fit; `why_not` gets
/// the reason.
std::unique_ptr<Contender> make_mpi_peer(Communicator& comm, const Arena& arena, bool on_stream,
                                         std::string& why_not);

}  // namespace plait::bench
