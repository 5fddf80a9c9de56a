! A program that stops at the first invalid operation, division by zero or overflow (gfortran
! -ffpe-trap): no call may end it, and its traps must be as they were afterwards.
! floating_point_test has the kernels alone, in more types; here the program's own thread also
! creates the communicator, chooses algorithms, ends groups and reports.
module traps_of_real32
  use, intrinsic :: iso_fortran_env, only: wp => real32
  include 'traps_calls.inc'
end module

module traps_of_real64
  use, intrinsic :: iso_fortran_env, only: wp => real64
  include 'traps_calls.inc'
end module

program fortran_traps_test
  use, intrinsic :: ieee_exceptions
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use mpi_f08
  use plait_mpi
  use traps_of_real32, only: real32_calls => calls
  use traps_of_real64, only: real64_calls => calls
  implicit none
  type(plait_comm) :: comm
  type(plait_config) :: config
  type(plait_statistics) :: statistics
  type(plait_call) :: question
  type(c_ptr) :: stream
  integer :: rank, ranks, failures = 0

  call check_traps()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  config%backend = PLAIT_BACKEND_HOST
  config%timeout_seconds = 60
  call plait_comm_create(MPI_COMM_WORLD%MPI_VAL, comm, config)
  call plait_stream_create(comm, stream)
  call check_traps()
  call real32_calls(comm, stream, failures)
  call real64_calls(comm, stream, failures)
  question%type = PLAIT_F64
  question%count = 12345
  if (len(plait_explain(comm, question)) == 0) failures = failures + 1
  statistics = plait_statistics_of(comm)
  if (statistics%calls == 0) failures = failures + 1
  call plait_stream_destroy(stream)
  call plait_comm_destroy(comm)
  call check_traps()
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, 2a)', ranks, ' ranks: ', merge('passed', 'FAILED', failures == 0)
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  subroutine check_traps()
    logical :: on(3)
    call ieee_get_halting_mode([ieee_invalid, ieee_divide_by_zero, ieee_overflow], on)
    if (all(on)) return
    failures = failures + 1
    write (error_unit, '(a, 3l2)') 'traps for invalid, zero, overflow:', on
  end subroutine
end program fortran_traps_test
