! The end of calls: plait_test, plait_wait_any, calls that block, events.
module completion_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08
  use plait
  use checks
  implicit none
  private
  public :: completion

contains

  !> All but the last rank wait for it: it comes to the next call 20 ms later than they.
  subroutine come_late()
    integer(int64) :: begin, now, rate
    call MPI_Barrier(MPI_COMM_WORLD)
    call system_clock(begin, rate)
    do
      call system_clock(now)
      if (rank /= ranks - 1 .or. now > begin + rate / 50) exit
    end do
  end subroutine

  subroutine completion()
    integer, parameter :: n = 50
    real(real64), target, asynchronous :: x(n), y(n)
    type(c_ptr) :: event, none(0)
    type(plait_options) :: blocking
    integer :: i, before, status, which
    logical :: done
    before = mod(rank + ranks - 1, ranks)
    x = value(rank, [(i, i = 1, n)])

    call come_late()
    call plait_all_reduce(comm, x, y, PLAIT_SUM, stream)
    do while (.not. plait_test(comm, stream))
    end do
    call check(all(y == total([(i, i = 1, n)])), 'what plait_test waited for')
    call come_late()
    y = -1
    call plait_all_reduce(comm, x, y, PLAIT_SUM, stream)
    call check(plait_wait_any(comm, [stream]) == 1, 'plait_wait_any')
    call check(all(y == total([(i, i = 1, n)])), 'what plait_wait_any waited for')
    which = plait_wait_any(comm, none, status)
    call check(which == 0, 'plait_wait_any of none')
    call refused(status, 'wait_any: rank', 'no streams')

    blocking%blocking = .true.
    call come_late()
    y = -1
    call plait_all_reduce(comm, x, y, PLAIT_SUM, stream, blocking)
    call check(all(y == total([(i, i = 1, n)])), 'a blocking all_reduce')
    call come_late()
    call plait_send_recv(comm, x, mod(rank + 1, ranks), y, before, stream, &
      plait_options(blocking=.true.))
    call check(all(y == value(before, [(i, i = 1, n)])), 'a blocking send_recv')
    call check(plait_test(comm, stream), 'a blocking call has ended')

    call plait_event_create(comm, event)
    call come_late()
    y = -1
    call plait_all_reduce(comm, x, y, PLAIT_SUM, stream)
    call plait_event_record(comm, event, stream)
    call plait_event_wait(comm, event)
    call plait_event_synchronize(comm, event)
    call check(plait_event_test(comm, event), 'plait_event_test')
    call check(all(y == total([(i, i = 1, n)])), 'what an event waited for')
    call plait_synchronize(comm)
    call plait_event_destroy(event)
    done = plait_event_test(comm, event, status)
    call check(.not. done, 'an event that was destroyed')
    call refused(status, 'is no event', 'destroyed')
  end subroutine
end module
