// MPI's collective functions, in front of those of the MPI below (the profiling interface of MPI).
namespace {

using N = int;
using P = int;

}  // namespace

#define PLAIT_SUFFIX
#include "interop/pmpi/functions.inc"

// This one has no counts.
PLAIT_SERVES(Barrier, Ibarrier, (MPI_Comm comm), (comm), barrier(own, use))

int MPI_Comm_free(MPI_Comm* comm) {
  Served::forget(*comm);
  return PMPI_Comm_free(comm);
}
int MPI_Comm_disconnect(MPI_Comm* comm) {
  Served::forget(*comm);
  return PMPI_Comm_disconnect(comm);
}
int MPI_Finalize() {
  Served::forget_all();
  Requests::instance().free_spare();
  report();
  return PMPI_Finalize();
}
