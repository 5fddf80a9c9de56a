! The module plait under mpirun: every collective, and messages, on arrays and addresses, symmetric
! memory, and calls that are refused.
program fortran_test
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64, real32, real64
  use mpi_f08
  use plait
  implicit none
  type(plait_comm) :: comm
  type(c_ptr) :: stream
  integer :: rank, ranks, failures = 0

  if (command_argument_count() > 0) call stop_without_status()
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call create()
  call all_reduces()
  call others()
  call in_place()
  call complex_numbers()
  call assumed_sizes()
  call messages()
  call symmetric_memory()
  call addresses()
  call questions()
  call refusals()
  call mistakes_enqueue_nothing()
  call plait_stream_destroy(stream)
  call plait_comm_destroy(comm)
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print '(i0, 2a)', ranks, ' ranks: ', merge('passed', 'FAILED', failures == 0)
  call MPI_Finalize()
  if (failures /= 0) error stop 1

contains

  subroutine check(good, what)
    logical, intent(in) :: good
    character(*), intent(in) :: what
    if (good) return
    failures = failures + 1
    write (error_unit, '(a, i0, 4a)') 'rank ', rank, ': ', what, '; last error: ', &
      plait_last_error()
  end subroutine

  !> The last call's status must be that of a wrong argument, and its sentence have both words.
  !> Afterwards the status is success, so that a call which does not set it is noticed.
  subroutine refused(status, first, second)
    integer, intent(inout) :: status
    character(*), intent(in) :: first, second
    call check(status == PLAIT_ERROR_INVALID_ARGUMENT, 'not refused: ' // first // ' ' // second)
    call check(index(plait_last_error(), first) > 0, 'not said: ' // first)
    call check(index(plait_last_error(), second) > 0, 'not said: ' // second)
    status = PLAIT_SUCCESS
  end subroutine

  !> Small integers, whose sums are exact in all types.
  elemental integer function value(of, i)
    integer, intent(in) :: of, i
    value = mod(7 * i + 13 * of, 61)
  end function

  elemental integer function total(i)
    integer, intent(in) :: i
    integer :: r
    total = sum([(value(r, i), r = 0, ranks - 1)])
  end function

  subroutine create()
    type(plait_comm) :: other, part
    type(plait_config) :: config
    type(plait_call) :: call
    type(plait_statistics) :: statistics
    type(plait_progress) :: progress
    config%backend = PLAIT_BACKEND_HOST
    config%timeout_seconds = 30
    call plait_comm_create(MPI_COMM_WORLD%MPI_VAL, comm, config)
    call plait_stream_create(comm, stream)
    call check(plait_comm_rank(comm) == rank .and. plait_comm_size(comm) == ranks, 'rank and size')
    call check(plait_comm_backend(comm) == PLAIT_BACKEND_HOST, 'backend')
    call check(index(plait_comm_describe(comm), 'host device') > 0, 'describe')
    call check(index(plait_comm_describe(comm), c_null_char) == 0, 'a zero in a text')
    call plait_comm_create_world(other)
    call plait_comm_split(other, color=merge(-1, 0, rank == 0), key=0, part=part)
    call check(c_associated(part%handle) .neqv. rank == 0, 'split')
    if (rank /= 0) call plait_comm_destroy(part)
    call plait_comm_duplicate(other, part)
    call plait_comm_destroy(other)
    call check(plait_comm_rank(part) == rank, 'duplicate')
    call plait_comm_destroy(part)
    ! The sizes of C's structures as the module states them.
    call check(config%size == c_sizeof(config) .and. call%size == c_sizeof(call), &
      'size of plait_config or plait_call')
    call check(statistics%size == c_sizeof(statistics) .and. &
      progress%size == c_sizeof(progress), 'size of statistics or progress')
  end subroutine

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

  !> As pairs of reals, as docs/c.md has it.
  subroutine complex_numbers()
    complex(real64), allocatable, target, asynchronous :: z(:, :)
    real(real64), pointer, asynchronous :: parts(:)
    integer :: i, at(50)
    at = [(i, i = 1, size(at))]
    z = reshape(cmplx(value(rank, at), value(rank, at + 1), real64), [5, 10])
    call c_f_pointer(c_loc(z), parts, [2 * size(z)])
    call plait_all_reduce_in_place(comm, parts, PLAIT_SUM, stream)
    call plait_synchronize(comm, stream)
    call check(all(z == reshape(cmplx(total(at), total(at + 1), real64), shape(z))), &
      'complex numbers')
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
    call plait_recv(comm, d, mod(rank + 1, ranks), stream, status=status)
    call refused(status, 'plait_recv: rank', 'data' // unknown)
    call plait_send_recv(comm, a, rank, b(:n), rank, stream, status=status)
    call refused(status, 'plait_send_recv: rank', 'send' // unknown)
    call plait_send_recv(comm, a(:n), rank, b, rank, stream, status=status)
    call refused(status, 'plait_send_recv: rank', 'recv' // unknown)
    call plait_all_to_all_v(comm, a, none, none, b(:n), none, none, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'send' // unknown)
    call plait_all_to_all_v(comm, a(:n), none, none, d, none, none, stream, status=status)
    call refused(status, 'plait_all_to_all_v: rank', 'recv' // unknown)
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

  subroutine symmetric_memory()
    type(plait_buffer) :: buffer
    real(real32), pointer, asynchronous :: x(:)
    real(real64), pointer :: gone(:)
    integer :: i, next, before, status
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    call plait_buffer_allocate(comm, 4000_c_size_t, buffer)
    call check(plait_buffer_bytes(buffer) == 4000, 'bytes of a buffer')
    call plait_view(buffer, x)
    call check(size(x) == 1000 .and. all(x == 0), 'a view')
    call check(plait_is_symmetric(comm, c_loc(x), 4000_c_size_t), 'is_symmetric')
    call check(.not. plait_is_symmetric(comm, c_loc(x), 4001_c_size_t), &
      'is_symmetric, one byte more')
    x = value(rank, [(i, i = 1, 1000)])
    call plait_all_reduce_in_place(comm, x, PLAIT_SUM, stream)
    call plait_synchronize(comm, stream)
    call check(all(x == total([(i, i = 1, 1000)])), 'symmetric memory')
    x(:500) = value(rank, [(i, i = 1, 500)])
    call plait_send_recv(comm, x(:500), next, x(501:), before, stream, &
      plait_options(algorithm='pairwise_put', symmetric=.true.))
    call plait_synchronize(comm, stream)
    call check(all(x(501:) == value(before, [(i, i = 1, 500)])), &
      'send_recv, straight into symmetric memory')
    call plait_buffer_free(buffer)
    call plait_view(buffer, gone, status)
    call refused(status, 'buffer', 'has been destroyed')
    call check(.not. associated(gone), 'a view of what is gone')
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

  subroutine questions()
    type(plait_call) :: call
    type(plait_statistics) :: statistics
    type(plait_progress) :: progress
    call%count = 100
    call check(plait_chosen(comm, call, plait_options(algorithm='ring')) == 'ring', 'chosen')
    call check(index(plait_explain(comm, call), 'all_reduce') > 0, 'explain')
    statistics = plait_statistics_of(comm)
    progress = plait_progress_of(comm)
    call check(statistics%calls > 10 .and. statistics%groups == 2 .and. &
      statistics%fifo_bytes > 0, 'statistics')
    call check(progress%blocks > 0 .and. progress%started == progress%completed, 'progress')
    call check(plait_async_error(comm) == PLAIT_SUCCESS, 'async_error')
    call check(plait_version() >= 100 .and. plait_status_name(PLAIT_ERROR_TIMEOUT) == 'timeout', &
      'version or status name')
    call check(plait_size_of(PLAIT_BF16) == 2, 'size_of')
  end subroutine

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
    call refused(status, 'plait_config has size 1000', '32')
    call plait_comm_create(MPI_COMM_NULL%MPI_VAL, dead, status=status)
    call refused(status, 'MPI_COMM_NULL', '')
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

  include 'fortran_mistakes.inc'

  !> Must end the program: no status was asked for.
  subroutine stop_without_status()
    call plait_barrier(plait_comm())
    print '(a)', 'still here'
    stop
  end subroutine
end program fortran_test
