! Calls that are refused, each mistake in each collective among them.
module refused_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use mpi_f08
  use plait_mpi
  use checks
  implicit none
  private
  public :: refusals, mistakes_enqueue_nothing, one_rank_is_refused

contains

  subroutine refusals()
    real(real32), target, asynchronous :: x(10), y(20)
    type(plait_comm) :: dead
    type(plait_config) :: config
    integer :: status
    x = 1
    y = 1
    call plait_comm_duplicate(comm, dead)
    call plait_comm_destroy(dead)
    call plait_all_reduce_in_place(dead, x, PLAIT_SUM, stream, status=status)
    call refused(status, 'communicator', 'has been destroyed')
    call plait_all_reduce(dead, x, y, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_all_reduce: communicator', 'has been destroyed')
    call plait_barrier(plait_comm(), stream, status)
    call refused(status, 'plait_barrier', 'NULL')
    call plait_all_reduce_in_place(comm, x, PLAIT_SUM, stream, plait_options(algorithm='rign'), &
      status)
    call refused(status, '"rign"', 'ring')
    config%size = 1000
    call plait_comm_create(MPI_COMM_WORLD%MPI_VAL, dead, config, status)
    call refused(status, 'plait_config has size 1000', '40')
    call plait_comm_create(MPI_COMM_NULL%MPI_VAL, dead, status=status)
    call refused(status, 'MPI_COMM_NULL', '')
    call plait_comm_create_with_id(plait_unique_id(), 0, 1, dead, status=status)
    call refused(status, 'id', '')
    call plait_group_start()
    call plait_all_reduce(comm, x, y(::2), PLAIT_SUM, stream, status=status)
    call plait_group_end(status)
    call refused(status, 'recv is not contiguous', 'nothing of the group was enqueued')
    call plait_synchronize(comm, stream)
    call check(all(x == 1) .and. all(y == 1), 'what was refused has written')
    call plait_comm_duplicate(comm, dead)
    if (rank == 0) call plait_abort(dead, 'enough')
    call plait_barrier(dead, stream, status)
    call plait_synchronize(dead, stream, status)
    call check(status == PLAIT_ERROR_ABORTED .and. index(plait_last_error(), 'enough') > 0, 'abort')
    call plait_comm_destroy(dead)
  end subroutine

  subroutine mistakes_enqueue_nothing()
    real(real64), allocatable, target, asynchronous :: x(:), y(:)
    type(plait_statistics) :: before, after
    allocate (x(4 * ranks * ranks + 4), y(4 * ranks * ranks + 4), source=1.0_real64)
    before = plait_statistics_of(comm)
    call mistakes(x, x, y)
    after = plait_statistics_of(comm)
    call check(after%calls == before%calls, 'what was refused was enqueued')
    call plait_synchronize(comm, stream)
    call check(all(x == 1) .and. all(y == 1), 'what was refused has written')
  end subroutine

  !> The last rank's third call is refused, and it goes on: all hear of it, and no sum is wrong.
  subroutine one_rank_is_refused()
    integer, parameter :: n = 4
    real(real64), target, asynchronous :: x(2 * n), y(n)
    type(plait_comm) :: copy
    integer :: status, call, i
    if (ranks == 1) return
    call plait_comm_duplicate(comm, copy)
    do call = 1, 40
      x = [(real(call * (7 * rank + i), real64), i = 1, 2 * n)]
      if (call == 3 .and. rank == ranks - 1) then
        call plait_all_reduce(copy, x(::2), y, PLAIT_SUM, stream, status=status)
        call refused(status, 'send is not contiguous', '')
        cycle
      end if
      call plait_all_reduce(copy, x(:n), y, PLAIT_SUM, stream, status=status)
      if (status == PLAIT_SUCCESS) call plait_synchronize(copy, stream, status)
      if (status /= PLAIT_SUCCESS) exit
      call check(all(y == [(call * (7 * ranks * (ranks - 1) / 2 + ranks * i), i = 1, n)]), &
        'a result of another call')
    end do
    call check(status == PLAIT_ERROR_MISMATCH .and. &
      index(plait_last_error(), 'call 3 was refused: ') > 0 .and. &
      index(plait_last_error(), 'is not contiguous') > 0, 'no word of the refused call')
    call plait_comm_destroy(copy)
  end subroutine

  include 'mistakes.inc'

end module
