#include "plait/mpi.hpp"

namespace plait {

Communicator make_communicator(MPI_Comm comm, const CommunicatorOptions& options) {
  return Communicator::create(make_mpi_bootstrap(comm, options.timeout), options);
}

}  // namespace plait
