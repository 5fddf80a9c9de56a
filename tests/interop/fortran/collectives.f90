! Results on arrays of all kinds and on addresses. fortran_device_test has each collective.
module collectives
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use plait
  use checks
  implicit none
  private
  public :: all_reduces, uneven_reductions, addresses

contains

  subroutine all_reduces()
    real(real32), target, asynchronous :: a(1001), b(1001)
    real(real64), target, asynchronous :: c(7, 11, 13)
    integer(int32), allocatable, target, asynchronous :: d(:)
    integer(int64), target, asynchronous :: e
    real(real64), allocatable, target, asynchronous :: many(:, :, :)
    real(real32), target, asynchronous :: none(0)
    integer :: i
    a = [(real(value(rank, i), real32), i = 1, size(a))]
    c = reshape([(real(value(rank, i), real64), i = 1, size(c))], shape(c))
    allocate (d(100), source=[(value(rank, i), i = 1, 100)])
    e = value(rank, 5)
    call plait_reserve(comm)
    call plait_group_start()
    call plait_all_reduce(comm, a, b, PLAIT_SUM, stream)
    call plait_all_reduce_in_place(comm, c, PLAIT_SUM, stream, plait_options(algorithm='ring'))
    call plait_all_reduce_in_place(comm, d, PLAIT_SUM, stream)
    call plait_all_reduce_in_place(comm, e, PLAIT_SUM, stream)
    call plait_group_end()
    call plait_synchronize(comm, stream)
    call check(all(b == total([(i, i = 1, size(b))])), 'real32')
    call check(all(a == value(rank, [(i, i = 1, size(a))])), 'the input of real32')
    call check(all(reshape(c, [size(c)]) == total([(i, i = 1, size(c))])), 'real64 of rank 3')
    call check(all(d == total([(i, i = 1, size(d))])), 'int32')
    call check(e == total(5), 'a scalar of int64')
    allocate (many(7, 13, 0:ranks - 1))
    many = -1
    many(:, :, rank) = c(:, 1, :) + rank
    call plait_all_gather_in_place(comm, many, stream, plait_options(algorithm='direct_push'))
    call plait_all_gather_in_place(comm, none, stream)
    call plait_scatter_in_place(comm, none, 0, stream)
    call plait_barrier(comm, stream)
    call plait_synchronize(comm, stream)
    call check(all([(all(many(:, :, i) == c(:, 1, :) + i), i = 0, ranks - 1)]), &
      'all_gather of rank 3')
    a = rank + 1
    ! contiguous
    call plait_all_reduce_in_place(comm, a(11:20), PLAIT_PREMUL_SUM, stream, &
      plait_options(scale=2.0_c_double))
    call plait_synchronize(comm, stream)
    call check(all(a(11:20) == ranks * (ranks + 1)) .and. a(10) == rank + 1 .and. &
      a(21) == rank + 1, 'a section, with a factor')
  end subroutine

  !> A count per rank: without a block for some, and equal ones. As arrays, in place, by addresses.
  subroutine uneven_reductions()
    integer, parameter :: rounds = 4, equal = 3
    real(real64), allocatable, target, asynchronous :: x(:), send(:), recv(:), longer(:)
    integer(int32), allocatable, target, asynchronous :: least(:)
    integer(c_size_t) :: counts(0:ranks - 1), minus(0:ranks - 1)
    integer :: round, i, r, all_of, first, own, status
    do round = 0, rounds - 1
      do r = 0, ranks - 1
        counts(r) = merge(7, 150 * mod(2 * r + round + 1, 3), round == equal)
      end do
      call allocate_all()
      call plait_group_start()
      call plait_reduce_scatter_v(comm, send, counts, recv, PLAIT_SUM, stream)
      call plait_reduce_scatter_v_in_place(comm, least, counts, PLAIT_MIN, stream)
      call plait_group_end()
      call plait_reduce_scatter_v_in_place(comm, x, counts, PLAIT_SUM, stream, &
        plait_options(algorithm='direct_push'))
      call plait_synchronize(comm, stream)
      call check_sums('reduce_scatter_v')
      do i = 1, all_of
        if (i > first .and. i <= first + own) then
          call check(x(i) == total(i), 'reduce_scatter_v in place')
          call check(least(i) == minval([(value(r, i), r = 0, ranks - 1)]), &
            'minimum by reduce_scatter_v in place')
        else
          call check(x(i) == value(rank, i) .and. least(i) == value(rank, i), &
            'reduce_scatter_v in place has changed another block')
        end if
      end do
      recv = -1
      call plait_reduce_scatter_v(comm, c_loc(send), counts, c_loc(recv), PLAIT_F64, PLAIT_SUM, &
        stream)
      call plait_synchronize(comm, stream)
      call check_sums('reduce_scatter_v by addresses')
    end do

    counts = [(int(r + 2, c_size_t), r = 0, ranks - 1)]
    minus = -1
    call allocate_all()
    call plait_reduce_scatter_v(comm, send, [counts, 0_c_size_t], recv, PLAIT_SUM, stream, &
      status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', ' counts for ')
    call plait_reduce_scatter_v_in_place(comm, x, counts(1:), PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', ' counts for ')
    call plait_reduce_scatter_v(comm, send(2:), counts, recv, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', ' elements, and the counts add up to ')
    call plait_reduce_scatter_v(comm, send, counts, recv(2:), PLAIT_SUM, stream, status=status)
    call refused(status, ': recv has ', ' elements, and its count is ')
    call plait_reduce_scatter_v_in_place(comm, x(2:), counts, PLAIT_SUM, stream, status=status)
    call refused(status, ': x has ', ' elements, and the counts add up to ')
    longer = [send, -1.0_real64]
    call plait_reduce_scatter_v(comm, longer, counts, recv, PLAIT_SUM, stream, status=status)
    call refused(status, ': send has ', ' elements, and the counts add up to ')
    call plait_reduce_scatter_v(comm, send, counts, longer(:own + 1), PLAIT_SUM, stream, &
      status=status)
    call refused(status, ': recv has ', ' elements, and its count is ')
    call plait_reduce_scatter_v_in_place(comm, longer, counts, PLAIT_SUM, stream, status=status)
    call refused(status, ': x has ', ' elements, and the counts add up to ')
    call plait_reduce_scatter_v(comm, send(::2), counts, recv, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'send is not contiguous')
    call plait_reduce_scatter_v(comm, send, counts, recv(::2), PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'recv is not contiguous')
    call plait_reduce_scatter_v_in_place(comm, x(::2), counts, PLAIT_SUM, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', 'x is not contiguous')
    call plait_reduce_scatter_v(comm, send, counts, recv, 17, stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', '17 is no operation')
    call plait_reduce_scatter_v(comm, c_loc(send), counts, c_loc(recv), 99, PLAIT_SUM, stream, &
      status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', '99 is no data type')
    call plait_reduce_scatter_v(comm, c_loc(send), minus, c_loc(recv), PLAIT_F64, PLAIT_SUM, &
      stream, status=status)
    call refused(status, 'reduce_scatter_v: rank', 'the counts of f64 overflow')
    call plait_reduce_scatter_v(comm, c_loc(send), counts(1:), c_loc(recv), PLAIT_F64, PLAIT_SUM, &
      stream, status=status)
    call refused(status, 'plait_reduce_scatter_v: rank', ' counts for ')
    call plait_reduce_scatter_v(plait_comm(), send(2:), counts, recv, PLAIT_SUM, stream, &
      status=status)
    call refused(status, 'plait_reduce_scatter_v', 'NULL')
    call plait_reduce_scatter_v_in_place(plait_comm(), x(2:), counts, PLAIT_SUM, stream, &
      status=status)
    call refused(status, 'plait_reduce_scatter_v', 'NULL')
    call plait_synchronize(comm, stream)
    call check(all(recv == -1) .and. all(x == send), 'a refused reduce_scatter_v has written')

  contains

    subroutine allocate_all()
      all_of = int(sum(counts))
      first = int(sum(counts(:rank - 1)))
      own = int(counts(rank))
      send = real(value(rank, [(i, i = 1, all_of)]), real64)
      x = send
      least = int(send, int32)
      recv = [(-1.0_real64, i = 1, own)]
    end subroutine

    subroutine check_sums(what)
      character(*), intent(in) :: what
      call check(all(recv == total([(i, i = first + 1, first + own)])), what)
      call check(all(send == value(rank, [(i, i = 1, all_of)])), what // ': its input')
    end subroutine
  end subroutine

  subroutine addresses()
    integer(int32), target, asynchronous :: x(9), y(9)
    type(plait_call) :: call
    x = rank + 1
    call plait_all_reduce(comm, c_loc(x), c_loc(y), 9_c_size_t, PLAIT_I32, PLAIT_MAX, stream)
    call plait_copy(comm, c_loc(x), c_loc(y), 4_c_size_t, stream)
    call plait_synchronize(comm, stream)
    call check(all(y == ranks) .and. x(1) == ranks .and. x(2) == rank + 1, 'addresses')
    x = rank
    call%collective = PLAIT_CALL_BROADCAST
    call%type = PLAIT_I32
    call%count = 9
    call plait_enqueue(comm, call, c_loc(x), c_loc(y), stream)
    call plait_synchronize(comm, stream)
    call check(all(y == 0), 'enqueue')
  end subroutine
end module
