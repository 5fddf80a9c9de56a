// Communicators over MPI: the only public header for C++ that includes <mpi.h>. plait/plait.hpp
// does not include it.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <chrono>
#include <memory>
#include <optional>

#include "plait/bootstrap.hpp"
#include "plait/communicator.hpp"
#include "plait/language.hpp"

namespace plait {

/// A communicator with one rank per process of `comm`. Collective over `comm`, which may be freed
/// afterwards. Equal to `Communicator::create` over `make_mpi_bootstrap(comm, options.timeout)`,
/// and throws what these two throw.
Communicator make_communicator(MPI_Comm comm, const CommunicatorOptions& options = {});

/// The peer of a message that MPI names by `rank`, such as a result of MPI_Cart_shift: `proc_null`
/// for MPI_PROC_NULL, whose value differs between implementations (-2 in Open MPI, -1 in MPICH).
constexpr int peer_from_mpi(int rank) { return rank == MPI_PROC_NULL ? proc_null : rank; }

/// A bootstrap over any intra-communicator. Collective over `comm`, on which it makes non-blocking
/// collective calls. It does not use `comm` afterwards, so `comm` may be freed.
///
/// If the caller has not initialised MPI, this does so, asks for MPI_THREAD_MULTIPLE, and finalises
/// MPI when the process ends. It never finalises an MPI that it did not initialise.
///
/// Throws `Error(bootstrap)` if MPI is already finalised. Throws it on all ranks, and names the
/// missing rank, if a rank does not come within `timeout`. Without a `timeout` the limit is
/// PLAIT_TIMEOUT, else 10 minutes; zero is no limit. The bootstrap's `timeout()` starts with that
/// limit.
///
/// The bootstrap's calls, and its destructor, call MPI on the thread that makes them. If MPI
/// provides less than MPI_THREAD_MULTIPLE (`MPI_Query_thread`), the caller must see to it that this
/// thread may call MPI, and that no other thread is in MPI meanwhile.
///
/// Messages go over a duplicate of a communicator that has all these ranks. Plait makes the
/// duplicate once, keeps it until MPI ends, and uses it for all later bootstraps of these ranks or
/// a part of them. So later bootstraps, `split` and destructors neither make nor free an MPI
/// communicator.
std::unique_ptr<Bootstrap> make_mpi_bootstrap(
    MPI_Comm comm, std::optional<std::chrono::nanoseconds> timeout = std::nullopt);

}  // namespace plait
