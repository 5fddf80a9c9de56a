! A user's Fortran program with an installed Plait: the sum of one array over all ranks, checked.
program consumer
  use, intrinsic :: iso_fortran_env, only: real64
  use plait
  use totals, only: total
  implicit none
  type(plait_comm) :: comm
  real(real64), target, asynchronous :: x(1001)
  integer :: rank, ranks, i
  ! Fortran's arrays are in the host's memory.
  call plait_comm_create_world(comm, plait_config(backend=PLAIT_BACKEND_HOST))
  rank = plait_comm_rank(comm)
  ranks = plait_comm_size(comm)
  x = [(real(i + rank, real64), i = 1, size(x))]
  call total(comm, x)
  if (any(x /= [(real(ranks * i + ranks * (ranks - 1) / 2, real64), i = 1, size(x))])) &
    error stop 'a wrong sum'
  call plait_comm_destroy(comm)
  print '(a, i0, a, i0, a, i0)', 'OK: Fortran, Plait ', plait_version(), ', rank ', rank, ' of ', &
    ranks
end program consumer
