#include <memory>

#include "bootstrap/mpi/link.hpp"
#include "plait/mpi.hpp"
#include "transport/mpi/mpi_transport.hpp"
#include "transport/mpi_offer.hpp"

namespace plait {
namespace {

/// Lets communicators use MPI between nodes in programs that have loaded this library.
const bool world_offered = [] {
  transport::offer_mpi_transport([](detail::Link& link) -> std::unique_ptr<transport::Transport> {
    const auto* const of_mpi = detail::Links::instance().find(link);
    return of_mpi == nullptr ? nullptr : transport::make_mpi_transport(of_mpi->comm());
  });
  return true;
}();

}  // namespace

Communicator make_communicator(MPI_Comm comm, const CommunicatorOptions& options) {
  return Communicator::create(make_mpi_bootstrap(comm, options.timeout), options);
}

}  // namespace plait
