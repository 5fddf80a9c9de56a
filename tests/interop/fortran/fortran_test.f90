! The module plait under mpirun: mpirun -n N fortran_test. With gfortran, it stops at the first
! invalid operation, division by zero or overflow (-ffpe-trap): no call may end it, and its traps
! must be as they were afterwards. floating_point_test has every kernel in such a program.
program fortran_test
  use, intrinsic :: ieee_exceptions
  use mpi_f08
  use plait
  use assumed_size_arrays, only: assumed_sizes
  use checks
  use collectives
  use communicators
  use completion_calls, only: completion
  use message_calls, only: halos, messages, uneven_blocks
  use operation_calls, only: operations
  use other_types
  use refused_calls
  implicit none
  type(ieee_flag_type), parameter :: traps(3) = [ieee_invalid, ieee_divide_by_zero, ieee_overflow]
  logical :: before(3)

  if (command_argument_count() > 0) call stop_without_status()
  call are_as_before(.true.)
  call ieee_set_halting_mode(traps, .false.)  ! libxml2, which Open MPI 5 starts, divides by zero
  call MPI_Init()
  call ieee_set_halting_mode(traps, before)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call create()
  call all_reduces()
  call uneven_reductions()
  call numbers()
  call pairs()
  call pairs_by_address()
  call unfit_operations()
  call assumed_sizes()
  call messages()
  call operations()
  call uneven_blocks()
  call halos()
  call completion()
  call symmetric_memory()
  call addresses()
  call questions()
  call refusals()
  call mistakes_enqueue_nothing()
  call one_rank_is_refused()
  call plait_stream_destroy(stream)
  call plait_comm_destroy(comm)
  call are_as_before(.false.)
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, 2a)', ranks, ' ranks: ', merge('passed', 'FAILED', failures == 0)
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  !> Must end the program: no status was asked for.
  subroutine stop_without_status()
    call plait_barrier(plait_comm())
    print '(a)', 'still here'
    stop
  end subroutine

  !> The first call notes which exceptions trap.
  subroutine are_as_before(is_first)
    logical, intent(in) :: is_first
    logical :: on(3)
    call ieee_get_halting_mode(traps, on)
    if (is_first) before = on
    call check(all(on .eqv. before), 'the traps have changed')
  end subroutine
end program fortran_test
