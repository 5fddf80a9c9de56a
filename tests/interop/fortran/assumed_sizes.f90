! Arrays of assumed size: their sections are served, they themselves refused.
module assumed_size_arrays
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real64
  use plait
  use checks
  implicit none
  private
  public :: assumed_sizes

contains

  subroutine assumed_sizes()
    real(real64), dimension(2 * ranks), target, asynchronous :: a, b, c, d
    a = rank + 1
    b = -1
    c = rank + 1
    d = -1
    call old(a, b, c, d, 2)
    call plait_synchronize(comm, stream)
    call check(all(a == ranks) .and. all(c == ranks) .and. all(b(:2) == ranks) .and. &
      all(b(3:) == -1), 'sections of assumed sizes')
    call check(all(d == merge(ranks, -1, rank == 0)), &
      'gather where others pass an assumed-size array')
  end subroutine

  !> As older programs declare their arguments. Nothing says that there are m columns of n.
  subroutine old(a, b, c, d, n)
    integer, intent(in) :: n
    real(real64), target, asynchronous :: a(*), b(*), c(n, *), d(n, *)
    character(*), parameter :: unknown = &
      ' is an assumed-size array, whose length is not known: pass a section of it, like '
    integer(c_size_t) :: none(ranks)
    integer :: status, m
    m = ranks
    none = 0
    status = PLAIT_SUCCESS
    call plait_all_reduce_in_place(comm, c, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_all_reduce: rank', 'x' // unknown // 'x(1:n)')
    call plait_send(comm, a, mod(rank + 1, ranks), stream, status=status)
    call refused(status, 'plait_send: rank', 'data' // unknown)
    call plait_recv(comm, d, mod(rank + ranks - 1, ranks), stream, status=status)
    call refused(status, 'plait_recv: rank', 'data' // unknown)
    call plait_send_recv(comm, a, rank, b(:n), rank, stream, status=status)
    call refused(status, 'plait_send_recv: rank', 'send' // unknown)
    call plait_send_recv(comm, a(:n), rank, b, rank, stream, status=status)
    call refused(status, 'plait_send_recv: rank', 'recv' // unknown)
    call plait_all_to_all_v(comm, a, none, none, b(:n), none, none, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'send' // unknown)
    call plait_all_to_all_v(comm, a(:n), none, none, d, none, none, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'recv' // unknown)
    call plait_reduce_scatter_v(comm, a, none, b(:n), PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'send' // unknown)
    call plait_reduce_scatter_v(comm, a(:n), none, d, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'recv' // unknown)
    call plait_reduce_scatter_v_in_place(comm, c, none, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'x' // unknown // 'x(1:n)')
    call plait_send(plait_comm(), a, 0, stream, status=status)
    call refused(status, 'plait_send', 'NULL')
    call plait_group_start()
    call plait_all_reduce_in_place(comm, a, PLAIT_SUM, stream, status=status)
    call plait_group_end(status)
    call refused(status, 'x' // unknown, 'nothing of the group was enqueued')

    ! Sections are as long as they say, and what other ranks pass for an array of the root does not
    ! matter.
    call plait_all_reduce_in_place(comm, a(:n * m), PLAIT_MAX, stream)
    call plait_all_reduce_in_place(comm, c(:, :m), PLAIT_MAX, stream)
    if (rank == 0) then
      call plait_reduce(comm, a(:n), b(:n), PLAIT_MIN, 0, stream)
      call plait_gather(comm, a(:n), d(:, :m), 0, stream)
      call plait_scatter(comm, c(:, :m), b(:n), 0, stream)
      call plait_broadcast(comm, a(:n), b(:n), 0, stream)
    else
      call plait_reduce(comm, a(:n), b, PLAIT_MIN, 0, stream)
      call plait_gather(comm, a(:n), d, 0, stream)
      call plait_scatter(comm, c, b(:n), 0, stream)
      call plait_broadcast(comm, a, b(:n), 0, stream)
    end if
  end subroutine
end module
