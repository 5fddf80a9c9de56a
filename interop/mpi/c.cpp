// plait_mpi.h.
#include <fmt/format.h>
#include <mpi.h>

#include "interop/c/arguments.hpp"
#include "plait/error.hpp"
#include "plait/mpi.hpp"
#include "plait/plait_mpi.h"

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::c;

plait_status plait_comm_create(MPI_Comm mpi, const plait_config* config, plait_comm* comm) {
  return create("plait_comm_create", config, comm, [&](const CommunicatorOptions& options) {
    return make_communicator(mpi, options);
  });
}

#if MPI_VERSION >= 5
constexpr auto from_fortran = MPI_Comm_fromint;
#else
constexpr auto from_fortran = MPI_Comm_f2c;
#endif

plait_status plait_comm_create_fortran(int mpi, const plait_config* config, plait_comm* comm) {
  constexpr const char* call = "plait_comm_create_fortran";
  return create(call, config, comm, [&](const CommunicatorOptions& options) {
    int initialized = 0, finalized = 0;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    // Before MPI_Init, MPI does not know its own handles; after MPI_Finalize, it ends a program
    // that asks for one.
    if (initialized == 0)
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("{}: MPI is not initialised: do that, or take plait_comm_create_world",
                      call));
    if (finalized != 0)
      throw Error(ErrorCode::bootstrap,
                  fmt::format("{}: MPI is already finalised in this process", call));
    return make_communicator(from_fortran(mpi), options);
  });
}

int plait_peer_from_mpi(int rank) { return peer_from_mpi(rank); }
