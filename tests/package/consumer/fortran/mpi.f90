! A user's Fortran program that calls MPI itself, with an installed Plait.
program consumer_mpi
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi
  use plait_mpi
  use totals, only: total
  implicit none
  type(plait_comm) :: comm
  real(real64), target, asynchronous :: x(1001)
  integer :: rank, ranks, error
  call MPI_Init(error)
  call plait_comm_create(MPI_COMM_WORLD, comm, plait_config(backend=PLAIT_BACKEND_HOST))
  rank = plait_comm_rank(comm)
  ranks = plait_comm_size(comm)
  x = rank
  call total(comm, x)
  if (any(x /= ranks * (ranks - 1) / 2)) error stop 'a wrong sum'
  call plait_comm_destroy(comm)
  print '(a, i0, a, i0)', 'OK: Fortran with MPI, rank ', rank, ' of ', ranks
  call MPI_Finalize(error)
end program consumer_mpi
