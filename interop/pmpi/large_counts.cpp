// MPI's collective functions with large counts, which are new in MPI 4.
#include <mpi.h>

#if MPI_VERSION >= 4
namespace {

using N = MPI_Count;
using P = MPI_Aint;

}  // namespace

#define PLAIT_SUFFIX _c
#include "interop/pmpi/functions.inc"
#endif
