! Messages: their results, and the ones that are refused.
module message_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use mpi_f08
  use plait_mpi
  use checks
  implicit none
  private
  public :: messages, uneven_blocks, halos

contains

  subroutine messages()
    integer, parameter :: n = 300
    real(real64), target, asynchronous :: a(n), b(n), back(3, 2), blocks(n, 0:ranks - 1), &
      received(n, 0:ranks - 1)
    integer(int32), target, asynchronous :: c(2), d(2)
    integer(c_size_t), dimension(0:ranks - 1) :: sent, got, at
    integer :: i, r, next, before, sides(2), status, index(n)
    type(MPI_Comm) :: line
    index = [(i, i = 1, n)]
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    a = value(rank, index)
    b = -1
    call plait_send_recv(comm, a, next, b, before, stream)
    call plait_group_start()
    call plait_send(comm, a(1:6), next, stream)
    call plait_recv(comm, back, before, stream, plait_options())
    c = rank
    call plait_send(comm, c_loc(c), 2_c_size_t, PLAIT_I32, before, stream)
    call plait_recv(comm, d, next, stream)
    call plait_group_end()
    call plait_synchronize(comm, stream)
    call check(all(b == value(before, index)), 'send_recv')
    call check(all(reshape(back, [6]) == value(before, index(1:6))), 'send and recv')
    call check(all(d == next), 'send of addresses')
    b = -1  ! along a line: its ends have one neighbour
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.false.], .false., line)
    call MPI_Cart_shift(line, 0, 1, sides(1), sides(2))
    call MPI_Comm_free(line)
    sides = plait_peer_from_mpi(sides)
    call check(all(sides == [merge(PLAIT_PROC_NULL, before, rank == 0), &
                             merge(PLAIT_PROC_NULL, next, rank == ranks - 1)]), 'MPI_Cart_shift')
    call plait_send_recv(comm, a, sides(2), b, sides(1), stream)
    call plait_send(comm, c_null_ptr, 3_c_size_t, PLAIT_F64, PLAIT_PROC_NULL, stream)
    call plait_synchronize(comm, stream)
    call check(all(b == merge(-1, value(before, index), rank == 0)), 'PLAIT_PROC_NULL')
    call plait_send_recv(comm, c_loc(a), 5_c_size_t, next, c_loc(b), 5_c_size_t, before, &
      PLAIT_I64, stream)

    ! a + b + 1 elements between ranks a and b, but none from a rank to itself unless it is alone.
    do r = 0, ranks - 1
      blocks(:, r) = value(rank, index + r)
      sent(r) = merge(0, r + 1 + rank, r == rank .and. ranks > 1)
      at(r) = n * r
    end do
    got = sent
    received = -1
    call plait_all_to_all_v(comm, blocks, sent, at, received, got, at(ranks - 1:0:-1), stream)
    call plait_synchronize(comm, stream)
    do r = 0, ranks - 1
      i = int(got(r))
      call check(all(received(1:i, ranks - 1 - r) == value(r, index(1:i) + rank)), 'all_to_all_v')
      call check(all(received(i + 1:, ranks - 1 - r) == -1), 'what all_to_all_v must not touch')
    end do

    call plait_send_recv(comm, a, rank, b(1:n - 1), rank, stream, status=status)
    call refused(status, 'send_recv: rank', 'sends to itself')
    call plait_send(comm, a(::2), next, stream, status=status)
    call refused(status, 'plait_send: rank', 'data is not contiguous')
    call plait_recv(comm, b(::2), before, stream, status=status)
    call refused(status, 'plait_recv: rank', 'data is not contiguous')
    call plait_send_recv(comm, a, next, b(::2), before, stream, status=status)
    call refused(status, 'plait_send_recv: rank', 'recv is not contiguous')
    call plait_send(comm, a, ranks, stream, status=status)
    call refused(status, 'send: rank', 'none of the ranks')
    call plait_send(plait_comm(), a(::2), next, stream, status=status)
    call refused(status, 'plait_send', 'NULL')
    call plait_all_to_all_v(comm, blocks, [sent, 0_c_size_t], at, received, got, at, stream, &
      status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'send counts')
    call plait_all_to_all_v(comm, blocks, sent, at, a, got + n, at, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'recv has 300 elements, and the block of rank')
    call plait_all_to_all_v(comm, blocks, sent - n, at, received, got, at, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'send has')
    call plait_all_to_all_v(plait_comm(), blocks, sent, at, received, got, at, stream, &
      status=status)
    call refused(status, 'plait_all_to_all_v', 'NULL')
    call plait_synchronize(comm, stream)
  end subroutine

  !> Blocks of all ranks: gathered by all and by a root, and scattered again.
  subroutine uneven_blocks()
    real(real64), allocatable, target, asynchronous :: own(:), all(:)
    integer(c_size_t), dimension(0:ranks - 1) :: counts, at
    integer(c_size_t) :: none(0)
    integer :: r, i, root, status, end
    root = ranks - 1
    end = 0
    do r = 0, ranks - 1
      counts(r) = mod(3 * r + 2, 4) * 20
      at(r) = end + 2
      end = end + 2 + int(counts(r))
    end do
    allocate (all(end), own(counts(rank)))
    own = value(rank, [(i, i = 1, size(own))])
    all = -1
    call plait_all_gather_v(comm, own, all, counts, at, stream)
    call plait_synchronize(comm, stream)
    call check_all('all_gather_v')
    call leave_own()
    call plait_all_gather_v_in_place(comm, all, counts, at, stream)
    call plait_synchronize(comm, stream)
    call check_all('all_gather_v in place')
    all = -1
    if (rank == root) then
      call plait_gather_v(comm, own, all, counts, at, root, stream)
      call plait_synchronize(comm, stream)
      call check_all('gather_v')
      call leave_own()
      call plait_gather_v_in_place(comm, all, counts, at, root, stream)
      call plait_synchronize(comm, stream)
      call check_all('gather_v in place')
      own = -1
      call plait_scatter_v(comm, all, counts, at, own, root, stream)
      call plait_scatter_v_in_place(comm, all, counts, at, root, stream)
      call plait_synchronize(comm, stream)
      call check_all('the root of scatter_v')
    else
      call plait_gather_v(comm, own, all(1:0), none, none, root, stream)
      call plait_gather_v_in_place(comm, own, none, none, root, stream)
      call plait_synchronize(comm, stream)
      call check(all_of(all == -1), 'what gather_v must not touch')
      own = -1
      call plait_scatter_v(comm, all(1:0), none, none, own, root, stream)
      call plait_synchronize(comm, stream)
      call check(all_of(own == value(rank, [(i, i = 1, size(own))])), 'scatter_v')
      own = -1
      call plait_scatter_v_in_place(comm, own, none, none, root, stream)
      call plait_synchronize(comm, stream)
    end if
    call check(all_of(own == value(rank, [(i, i = 1, size(own))])), 'scatter_v, the second')

    own = -1  ! by addresses
    if (rank /= root) all = -1
    call plait_scatter_v(comm, c_loc(all), counts, at, c_loc(own), counts(rank), PLAIT_F64, root, &
      stream)
    call plait_gather_v(comm, c_loc(own), counts(rank), c_loc(all), counts, at, PLAIT_F64, root, &
      stream)
    call plait_synchronize(comm, stream)
    if (rank == root) call check_all('gather_v by addresses')
    call plait_all_gather_v(comm, c_loc(own), counts(rank), c_loc(all), counts, at, PLAIT_F64, &
      stream)
    call plait_synchronize(comm, stream)
    call check_all('all_gather_v by addresses')

    call plait_all_gather_v(comm, own, all, counts, at(:ranks - 2), stream, status=status)
    call refused(status, 'plait_all_gather_v: rank', 'recv displacements for')
    call plait_all_gather_v(comm, own, all, counts, at + 1000, stream, status=status)
    call refused(status, 'plait_all_gather_v: rank', 'recv has')
    call plait_all_gather_v_in_place(comm, all, counts, at - 3, stream, status=status)
    call refused(status, 'plait_all_gather_v: rank', 'x has')
    call plait_gather_v(comm, own, all(::2), counts, at, rank, stream, status=status)
    call refused(status, 'plait_gather_v: rank', 'recv is not contiguous')
    call plait_gather_v(comm, own, all, counts, at, ranks, stream, status=status)
    call refused(status, 'gather_v: rank', 'none of the ranks')
    call plait_scatter_v(comm, all, none, at, own, rank, stream, status=status)
    call refused(status, 'plait_scatter_v: rank', 'there are 0 send counts and')
    call plait_scatter_v_in_place(plait_comm(), all, counts, at, root, stream, status=status)
    call refused(status, 'plait_scatter_v', 'NULL')

  contains

    !> The blocks of all ranks, and nothing between them.
    subroutine check_all(what)
      character(*), intent(in) :: what
      integer :: r, i
      do r = 0, ranks - 1
        associate (block => all(at(r) + 1:at(r) + counts(r)))
          call check(all_of(block == value(r, [(i, i = 1, int(counts(r)))])), what)
        end associate
        call check(all_of(all(at(r) - 1:at(r)) == -1), what // ': between the blocks')
      end do
    end subroutine

    subroutine leave_own()
      all = -1
      all(at(rank) + 1:at(rank) + counts(rank)) = own
    end subroutine
  end subroutine

  !> `all`, which is an array above.
  logical function all_of(mask)
    logical, intent(in) :: mask(:)
    all_of = all(mask)
  end function

  !> The halos of a ring, with left and right neighbours that may be one rank, or this one.
  subroutine halos()
    real(real64), target, asynchronous :: cells(8), there(8)
    integer, dimension(3) :: to, from
    integer(c_size_t), parameter :: counts(3) = [2, 99, 2], edges(3) = [2, 99, 4], &
      places(3) = [6, 99, 0]
    integer :: left, right, i, status
    left = modulo(rank - 1, ranks)
    right = modulo(rank + 1, ranks)
    to = [left, PLAIT_PROC_NULL, right]
    from = [right, PLAIT_PROC_NULL, left]
    cells = value(rank, [(i, i = -1, 6)])
    there = -1
    call plait_neighbor_all_to_all_v(comm, cells, to, counts, edges, there, from, counts, places, &
      stream)
    call plait_synchronize(comm, stream)
    call check(all(there(1:2) == value(left, [3, 4])) .and. all(there(3:6) == -1) .and. &
      all(there(7:8) == value(right, [1, 2])), 'neighbor_all_to_all_v')
    there = -1
    call plait_neighbor_all_to_all_v(comm, c_loc(cells), to, counts, edges, c_loc(there), from, &
      counts, places, PLAIT_F64, stream)
    call plait_synchronize(comm, stream)
    call check(all(there(1:2) == value(left, [3, 4])) .and. all(there(3:6) == -1) .and. &
      all(there(7:8) == value(right, [1, 2])), 'neighbor_all_to_all_v by addresses')
    call plait_neighbor_all_to_all_v(comm, cells, to, counts, edges, there, from([1, 3]), &
      counts, places, stream, status=status)
    call refused(status, 'plait_neighbor_all_to_all_v: rank', 'recv displacements for 2 peers')
    call plait_neighbor_all_to_all_v(comm, cells, to, counts, edges, there, from, counts, &
      places + 1, stream, status=status)
    call refused(status, 'plait_neighbor_all_to_all_v: rank', 'recv has 8 elements, and the block')
  end subroutine
end module
