! Messages: their results, and the ones that are refused.
module message_calls
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, real64
  use plait
  use checks
  implicit none
  private
  public :: messages

contains

  subroutine messages()
    integer, parameter :: n = 300
    real(real64), target, asynchronous :: a(n), b(n), back(3, 2), blocks(n, 0:ranks - 1), &
      received(n, 0:ranks - 1)
    integer(int32), target, asynchronous :: c(2), d(2)
    integer(c_size_t), dimension(0:ranks - 1) :: sent, got, at
    integer :: i, r, next, before, status, index(n)
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
    call plait_send_recv(comm, a, merge(PLAIT_PROC_NULL, next, rank == ranks - 1), b, &
      merge(PLAIT_PROC_NULL, before, rank == 0), stream)
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
end module
