// Communicators over MPI: the only public header for C++ that includes <mpi.h>. plait/plait.hpp
// does not include it.
#pragma once
#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>

#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"
#include "plait/language.hpp"

namespace plait {

/// A communicator with one rank per process of `comm`. Collective over `comm`, which may be freed
/// afterwards. The same as `Communicator::create` over
/// `make_mpi_bootstrap(comm, options.timeout)`; throws what these two throw.
Communicator make_communicator(MPI_Comm comm, const CommunicatorOptions& options = {});

/// Bootstrap over any intra-communicator. Collective over `comm`, on which it makes non-blocking
/// collective calls; nothing of `comm` is used afterwards, so it may be freed. Initialises MPI,
/// asking for MPI_THREAD_MULTIPLE, if the caller has not, and then finalises it when the process
/// ends; never finalises what it did not initialise. Throws `Error(bootstrap)` if MPI is already
/// finalised, and on all ranks, naming the missing one, if a rank does not come within `timeout`,
/// which is PLAIT_TIMEOUT if none is passed, else 10 minutes, and zero for no limit. `timeout()` is
/// that limit at first.
///
/// Its calls, and its end, are MPI calls of the thread that makes them. If MPI provides less than
/// MPI_THREAD_MULTIPLE (`MPI_Query_thread`), which threads may make them, and that no other thread
/// is in MPI meanwhile, is the caller's business.
///
/// Messages go over a duplicate of a communicator that has all its ranks. It is made once, kept
/// until MPI ends, and used by all later bootstraps of these ranks or a part of them: they,
/// `split`, and the end of a bootstrap make no communicator and free none.
std::unique_ptr<Bootstrap> make_mpi_bootstrap(
    MPI_Comm comm, std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

}  // namespace plait
