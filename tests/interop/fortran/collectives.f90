! The results of each collective, on arrays and on addresses.
module collectives
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use plait
  use checks
  implicit none
  private
  public :: all_reduces, others, in_place, uneven_reductions, addresses

contains

  subroutine all_reduces()
    real(real32), target, asynchronous :: a(1001), b(1001)
    real(real64), target, asynchronous :: c(7, 11, 13)
    integer(int32), allocatable, target, asynchronous :: d(:)
    integer(int64), target, asynchronous :: e
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
    a = rank + 1
    ! contiguous
    call plait_all_reduce_in_place(comm, a(11:20), PLAIT_PREMUL_SUM, stream, &
      plait_options(scale=2.0_c_double))
    call plait_synchronize(comm, stream)
    call check(all(a(11:20) == ranks * (ranks + 1)) .and. a(10) == rank + 1 .and. &
      a(21) == rank + 1, 'a section, with a factor')
  end subroutine

  subroutine others()
    integer, parameter :: n = 50
    real(real64), target, asynchronous :: one(n), reduced(n, 1), none(0)
    real(real64), target, asynchronous :: all_of(n, 0:ranks - 1), from(n, 0:ranks - 1)
    integer :: i, r, root
    integer :: at(n)
    at = [(i, i = 1, n)]
    root = ranks - 1

    one = value(rank, at)
    call plait_all_gather(comm, one, all_of, stream)
    call plait_synchronize(comm, stream)
    call check(all([(all(all_of(:, r) == value(r, at)), r = 0, ranks - 1)]), 'all_gather')

    do r = 0, ranks - 1
      from(:, r) = value(rank, at + r)
    end do
    call plait_reduce_scatter(comm, from, one, PLAIT_SUM, stream)
    call plait_all_to_all(comm, from, all_of, stream)
    call plait_synchronize(comm, stream)
    call check(all(one == total(at + rank)), 'reduce_scatter')
    call check(all([(all(all_of(:, r) == value(r, at + rank)), r = 0, ranks - 1)]), 'all_to_all')
    call plait_all_to_all_in_place(comm, from, stream)
    call plait_synchronize(comm, stream)
    call check(all(from == all_of), 'all_to_all in place')

    one = value(rank, at)
    call plait_broadcast_in_place(comm, one, root, stream)
    call plait_synchronize(comm, stream)
    call check(all(one == value(root, at)), 'broadcast in place')
    one = value(rank, at)
    if (rank == root) then  ! the other ranks pass anything for what is the root's alone
      call plait_broadcast(comm, one, from(:, 0), root, stream)
      call plait_reduce(comm, one, reduced, PLAIT_SUM, root, stream)
      call plait_gather(comm, one, all_of, root, stream)
    else
      call plait_broadcast(comm, none, from(:, 0), root, stream)
      call plait_reduce(comm, one, none, PLAIT_SUM, root, stream)
      call plait_gather(comm, one, none, root, stream)
    end if
    call plait_synchronize(comm, stream)
    call check(all(from(:, 0) == value(root, at)), 'broadcast')
    if (rank == root) then
      call check(all(reduced(:, 1) == total(at)), 'reduce')
      call check(all([(all(all_of(:, r) == value(r, at)), r = 0, ranks - 1)]), 'gather')
      call plait_scatter(comm, all_of, one, root, stream)
    else
      call plait_scatter(comm, none, one, root, stream)
    end if
    call plait_barrier(comm, stream)
    call plait_synchronize(comm, stream)
    call check(all(one == value(rank, at)), 'scatter')
    call plait_reduce_in_place(comm, one, PLAIT_SUM, root, stream)
    call plait_synchronize(comm, stream)
    if (rank == root) call check(all(one == total(at)), 'reduce in place')

    one = value(rank, at)
    reduced = -1
    call plait_scan(comm, one, from(:, 0), PLAIT_SUM, stream)
    call plait_exscan(comm, one, reduced, PLAIT_SUM, stream)
    call plait_scan_in_place(comm, one, PLAIT_SUM, stream)
    call plait_synchronize(comm, stream)
    call check(all(one == first_ranks(rank + 1)), 'scan in place')
    call check(all(from(:, 0) == one), 'scan')
    if (rank == 0) call check(all(reduced == -1), 'exscan has written on rank 0')
    if (rank > 0) call check(all(reduced(:, 1) == first_ranks(rank)), 'exscan')
    one = value(rank, at)
    call plait_exscan_in_place(comm, one, PLAIT_SUM, stream)
    call plait_synchronize(comm, stream)
    if (rank == 0) call check(all(one == value(0, at)), 'exscan in place has written on rank 0')
    if (rank > 0) call check(all(one == reduced(:, 1)), 'exscan in place')
  contains
    !> The sum of the values of the first `terms` ranks.
    function first_ranks(terms) result(sums)
      integer, intent(in) :: terms
      real(real64) :: sums(n)
      integer :: q
      sums = 0
      do q = 0, terms - 1
        sums = sums + value(q, at)
      end do
    end function
  end subroutine

  !> The calls with a block for each rank in one of their buffers: with each root, and each type
  !> once.
  subroutine in_place()
    integer, parameter :: n = 6
    real(real64), target, asynchronous :: a(2, 3, 0:ranks - 1)
    integer(int32), target, asynchronous :: b(n, 0:ranks - 1)
    integer(int64), target, asynchronous :: c(n, 0:ranks - 1)
    real(real32), target, asynchronous :: d(n, 0:ranks - 1), one(n), none(0)
    integer :: i, r, root, at(n)
    at = [(i, i = 1, n)]
    a = -1
    a(:, :, rank) = reshape(real(value(rank, at), real64), [2, 3])
    do r = 0, ranks - 1
      b(:, r) = value(rank, at + r)
    end do
    call plait_all_gather_in_place(comm, a, stream, plait_options(algorithm='direct_push'))
    call plait_reduce_scatter_in_place(comm, b, PLAIT_SUM, stream)
    call plait_synchronize(comm, stream)
    do r = 0, ranks - 1
      call check(all(reshape(a(:, :, r), [n]) == value(r, at)), 'all_gather in place')
      call check(all(b(:, r) == merge(total(at + r), value(rank, at + r), r == rank)), &
        'reduce_scatter in place')
    end do
    do root = 0, ranks - 1
      c = -1
      c(:, rank) = value(rank, at)
      d = -1
      one = -1
      if (rank == root) then
        do r = 0, ranks - 1
          d(:, r) = value(root, at + r)
        end do
        call plait_gather_in_place(comm, c, root, stream)
        call plait_scatter_in_place(comm, d, root, stream)
      else
        call plait_gather_in_place(comm, c(:, rank), root, stream)
        call plait_scatter_in_place(comm, one, root, stream)
      end if
      call plait_synchronize(comm, stream)
      do r = 0, ranks - 1
        if (rank == root) call check(all(c(:, r) == value(r, at)), 'gather in place')
        if (rank /= root) &
          call check(all(c(:, r) == merge(value(rank, at), -1, r == rank)), &
          'gather in place has changed a sender')
        if (rank == root) &
          call check(all(d(:, r) == value(root, at + r)), &
          'scatter in place has changed the root''s')
      end do
      if (rank /= root) call check(all(one == value(root, at + rank)), 'scatter in place')
    end do
    call plait_all_gather_in_place(comm, none, stream)
    call plait_scatter_in_place(comm, none, 0, stream)

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
