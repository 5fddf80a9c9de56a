// MPI's collective functions with large counts, which are new in MPI 4.
#include <mpi.h>

#if MPI_VERSION >= 4
#include "interop/pmpi/requests.hpp"

namespace {

using N = MPI_Count;
using P = MPI_Aint;
using Blocks = plait::pmpi::BlocksOfMpi<N, P>;

}  // namespace

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::pmpi;  // NOLINT(google-build-using-namespace)

#define PLAIT_SUFFIX _c
#include "interop/pmpi/functions.inc"
#endif
