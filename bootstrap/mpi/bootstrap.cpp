#include <optional>
#include <utility>

#include "bootstrap/launcher/world.hpp"
#include "bootstrap/link_bootstrap.hpp"
#include "bootstrap/mpi/handshake.hpp"
#include "bootstrap/mpi/process.hpp"
#include "bootstrap/mpi/support.hpp"
#include "plait/mpi.hpp"

namespace plait {
namespace {

/// Makes MPI_COMM_WORLD the world of programs that have loaded this library.
const bool transport_offered = [] {
  detail::offer_mpi_world(
      [](std::optional<std::chrono::nanoseconds> timeout) {
        return make_mpi_bootstrap(MPI_COMM_WORLD, timeout);
      },
      [] {
        int initialized = 0;
        MPI_Initialized(&initialized);
        return initialized != 0;
      });
  return true;
}();

}  // namespace

std::unique_ptr<Bootstrap> make_mpi_bootstrap(MPI_Comm comm,
                                              std::optional<std::chrono::nanoseconds> timeout) {
  detail::initialize_mpi();
  if (comm == MPI_COMM_NULL)
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is MPI_COMM_NULL");
  // A handle that was never set, or that Open MPI makes of a Fortran integer that it does not know.
  // MPI would end the program.
  if (comm == MPI_Comm{})
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is none of MPI's");
  int inter = 0, rank = 0;
  detail::check(MPI_Comm_test_inter(comm, &inter), "make_mpi_bootstrap", 0);
  if (inter != 0) {
    throw Error(ErrorCode::invalid_argument,
                "make_mpi_bootstrap: the communicator is an inter-communicator; merge it first");
  }
  detail::check(MPI_Comm_rank(comm, &rank), "make_mpi_bootstrap", 0);
  std::string failure;
  const std::chrono::nanoseconds limit = detail::limit_of_meeting(timeout, failure);
  detail::Meeting meeting = detail::meet(comm, limit, failure);
  // The link lives until the process ends, so nothing owns it.
  return std::make_unique<detail::LinkBootstrap>(
      std::shared_ptr<detail::Link>(std::shared_ptr<void>(), meeting.link), meeting.context,
      std::move(meeting.ranks), meeting.nodes, rank, limit);
}

}  // namespace plait
