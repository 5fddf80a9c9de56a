// MPI's own all-reduce, as a peer on host memory.
#pragma once
#include <memory>
#include <string>

#include "bench/contender.hpp"

namespace plait::bench {

/// `peer:mpi` on the host target. Its calls run on the stream like all others, on whichever thread
/// serves it, unless `on_stream` is false: then on the calling thread, as a program calls MPI. MPI
/// must have been initialised with MPI_THREAD_SERIALIZED at least, and nobody else may call MPI
/// before the stream is empty. Collective. Null, and the reason in `why_not`, where that is not so.
std::unique_ptr<Contender> make_mpi_peer(Communicator& comm, const Arena& arena, bool on_stream,
                                         std::string& why_not);

}  // namespace plait::bench
