/* The functions of Plait's C interface that need MPI's header: they make communicators from MPI's.
 */
#ifndef PLAIT_PLAIT_MPI_H /* SPDX-License-Identifier: Apache-2.0 */
#define PLAIT_PLAIT_MPI_H

#include <mpi.h>

#include "plait/plait.h"

#ifdef __cplusplus
extern "C" {
#endif

/** One rank per process of the intra-communicator `mpi`, which may be freed afterwards. Collective
 * over `mpi`. Initialises MPI if the program has not, and then finalises it when the process ends,
 * but not after a lost rank or a timeout, see `plait_comm_create_world`. `config`: NULL for the
 * defaults. */
plait_status plait_comm_create(MPI_Comm mpi, const plait_config* config, plait_comm* comm);
/** The same for a communicator as Fortran has it: an integer, or `comm%MPI_VAL` of mpi_f08. */
plait_status plait_comm_create_fortran(int mpi, const plait_config* config, plait_comm* comm);

/** The peer of a message that MPI names by `rank`, such as a result of MPI_Cart_shift:
 * PLAIT_PROC_NULL for MPI_PROC_NULL, whose value differs between implementations (-2 in Open MPI,
 * -1 in MPICH). Any other rank is returned as it is. */
int plait_peer_from_mpi(int rank);

#ifdef __cplusplus
}
#endif

#endif
