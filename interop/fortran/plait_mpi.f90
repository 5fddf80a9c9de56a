! SPDX-License-Identifier: Apache-2.0
! Plait's Fortran interface with MPI: use plait_mpi. It has all of the module plait, and makes
! communicators from MPI's. It needs no module of MPI's, because MPI's handles are integers in
! Fortran.
module plait_mpi
  use, intrinsic :: iso_c_binding, only: c_int, c_ptr
  use plait
  use plait_base, only: finish
  implicit none
  public

  interface
    function c_comm_create_fortran(mpi, config, comm) &
      bind(c, name="plait_comm_create_fortran") result(status)
      import; integer(c_int), value :: mpi; type(plait_config), intent(in), optional :: config
      type(c_ptr), intent(inout) :: comm
      integer(c_int) :: status
    end function
    pure function c_peer_from_mpi(rank) bind(c, name="plait_peer_from_mpi") result(peer)
      import; integer(c_int), value :: rank
      integer(c_int) :: peer
    end function
  end interface
  private :: c_comm_create_fortran, c_peer_from_mpi, c_int, c_ptr, finish

contains

  !> One rank per process of the MPI communicator `mpi`: an integer, or comm%MPI_VAL of mpi_f08. MPI
  !> must be initialised. Collective.
  subroutine plait_comm_create(mpi, comm, config, status)
    integer, intent(in) :: mpi
    type(plait_comm), intent(out) :: comm
    type(plait_config), intent(in), optional :: config
    integer, intent(out), optional :: status
    call finish(c_comm_create_fortran(int(mpi, c_int), config, comm%handle), status)
  end subroutine

  !> The peer of a message that MPI names by `rank`, such as a result of MPI_Cart_shift:
  !> PLAIT_PROC_NULL for MPI_PROC_NULL, whose value differs between implementations.
  elemental function plait_peer_from_mpi(rank) result(peer)
    integer, intent(in) :: rank
    integer :: peer
    peer = c_peer_from_mpi(int(rank, c_int))
  end function
end module plait_mpi
