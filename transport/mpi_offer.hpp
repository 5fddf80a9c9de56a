// How communicators find the transport over MPI, which libplait.so does not link.
#pragma once
#include <memory>

#include "bootstrap/link.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// The transport between the ranks of `link`; null if they did not meet through MPI. Local. Throws
/// Error(unsupported) if MPI must not be called from several threads.
using MakeMpiTransport = std::unique_ptr<Transport> (*)(plait::detail::Link& link);
/// libplait-mpi calls it when it is loaded.
void offer_mpi_transport(MakeMpiTransport make);
/// Null if libplait-mpi is not loaded.
MakeMpiTransport offered_mpi_transport();

}  // namespace plait::transport
