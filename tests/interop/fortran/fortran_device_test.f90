! The module plait on whichever target PLAIT_BACKEND names, with a GPU's memory where it is one:
! mpirun -n N fortran_device_test. Arrays are views of symmetric memory that the program hands on
! and never touches itself; plait_copy brings data there and back.
program fortran_device_test
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use plait
  implicit none
  integer, parameter :: lengths(3) = [1, 1003, 100003], most = lengths(3)
  type(plait_comm) :: comm
  type(plait_buffer) :: buffers(2)
  type(c_ptr) :: stream
  real(real64), pointer, asynchronous :: send(:), recv(:)
  real(real64), allocatable, target, asynchronous :: here(:), expected(:)
  integer :: rank, ranks, i, failures = 0

  call plait_comm_create_world(comm)
  call plait_stream_create(comm, stream)
  rank = plait_comm_rank(comm)
  ranks = plait_comm_size(comm)
  if (rank == 0) print '(a)', plait_comm_describe(comm)
  do i = 1, 2
    call plait_buffer_allocate(comm, int(8, c_size_t) * most * ranks, buffers(i))
  end do
  call plait_view(buffers(1), send)
  call plait_view(buffers(2), recv)
  allocate (here(most * ranks), expected(most * ranks))
  do i = 1, size(lengths)
    call collectives(lengths(i))
    call in_place(lengths(i))
    call messages(lengths(i))
    call counts_per_rank(lengths(i))
  end do
  do i = 1, 2
    call plait_buffer_free(buffers(i))
  end do
  call plait_stream_destroy(stream)
  call plait_comm_destroy(comm)
  print '(a, i0, 2a)', 'rank ', rank, ': ', merge('passed', 'FAILED', failures == 0)
  if (failures /= 0) error stop 1

contains

  !> What `of` has at i; small integers, whose sums are exact.
  elemental real(real64) function value(of, i)
    integer, intent(in) :: of, i
    value = mod(7 * i + 13 * of, 61)
  end function

  !> Block `block` of `of`, n elements; the sum of all ranks' blocks.
  function values(of, block, n)
    integer, intent(in) :: of, block, n
    real(real64) :: values(n)
    integer :: j
    values = [(value(of, block * n + j), j = 1, n)]
  end function
  function sums(block, n)
    integer, intent(in) :: block, n
    real(real64) :: sums(n)
    integer :: r
    sums = 0
    do r = 0, ranks - 1
      sums = sums + values(r, block, n)
    end do
  end function

  !> A block of n for each rank in `send`, and -1 in `recv`.
  subroutine fill(n)
    integer, intent(in) :: n
    integer :: b
    do b = 0, ranks - 1
      here(b * n + 1:(b + 1) * n) = values(rank, b, n)
    end do
    call plait_copy(comm, c_loc(send), c_loc(here), int(8, c_size_t) * n * ranks, stream)
    call plait_synchronize(comm, stream)
    here = -1
    expected = -1
    call plait_copy(comm, c_loc(recv), c_loc(here), int(8, c_size_t) * n * ranks, stream)
  end subroutine

  !> The same of `send`, after a call in place.
  subroutine compare_in_place(what, n)
    character(*), intent(in) :: what
    integer, intent(in) :: n
    call plait_copy(comm, c_loc(recv), c_loc(send), int(8, c_size_t) * n * ranks, stream)
    call compare(what // ' in place of ', n)
  end subroutine

  !> Whether `recv` is what is expected of it, beyond what the call was to write too.
  subroutine compare(what, n)
    character(*), intent(in) :: what
    integer, intent(in) :: n
    integer :: wrong
    call plait_copy(comm, c_loc(here), c_loc(recv), int(8, c_size_t) * n * ranks, stream)
    call plait_synchronize(comm, stream)
    wrong = count(here(:n * ranks) /= expected(:n * ranks))
    if (wrong == 0) return
    failures = failures + 1
    write (error_unit, '(a, i0, 2a, i0, a, i0, a)') 'rank ', rank, ': ', what, n, ': ', wrong, &
      ' elements are wrong'
  end subroutine

  subroutine collectives(n)
    integer, intent(in) :: n
    integer :: root, all, b
    logical :: is_root
    root = ranks - 1
    all = n * ranks
    is_root = rank == root

    call fill(n)
    expected(:n) = sums(0, n)
    call plait_all_reduce(comm, send(:n), recv(:n), PLAIT_SUM, stream)
    call compare('all_reduce of ', n)

    call fill(n)
    expected(:n) = 0
    do b = 0, rank
      expected(:n) = expected(:n) + values(b, 0, n)
    end do
    call plait_scan(comm, send(:n), recv(:n), PLAIT_SUM, stream)
    call compare('scan of ', n)

    call fill(n)
    if (rank > 0) expected(:n) = 0
    do b = 0, rank - 1
      expected(:n) = expected(:n) + values(b, 0, n)
    end do
    call plait_exscan(comm, send(:n), recv(:n), PLAIT_SUM, stream)
    call compare('exscan of ', n)

    call fill(n)
    expected(:n) = sums(rank, n)
    call plait_reduce_scatter(comm, send(:all), recv(:n), PLAIT_SUM, stream)
    call compare('reduce_scatter of ', n)

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(b, 0, n)
    end do
    call plait_all_gather(comm, send(:n), recv(:all), stream)
    call compare('all_gather of ', n)
    if (is_root) then
      call plait_gather(comm, send(:n), recv(:all), root, stream)
    else
      call plait_gather(comm, send(:n), recv(:0), root, stream)
    end if
    call compare('gather of ', n)

    call fill(n)
    expected(:n) = values(root, 0, n)
    call plait_broadcast(comm, send(:n), recv(:n), root, stream)
    call compare('broadcast of ', n)

    call fill(n)
    if (is_root) expected(:n) = sums(0, n)
    call plait_reduce(comm, send(:n), recv(:n), PLAIT_SUM, root, stream)
    call compare('reduce of ', n)

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(b, rank, n)
    end do
    call plait_all_to_all(comm, send(:all), recv(:all), stream)
    call compare('all_to_all of ', n)

    call fill(n)
    expected(:n) = values(root, rank, n)
    call plait_scatter(comm, send(:all), recv(:n), root, stream)
    call compare('scatter of ', n)
  end subroutine

  !> Where one of the buffers has a block for each rank, on `send`.
  subroutine in_place(n)
    integer, intent(in) :: n
    integer :: root, all, own, b
    root = ranks - 1
    all = n * ranks
    own = rank * n

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(rank, b, n)
    end do
    expected(own + 1:own + n) = sums(rank, n)
    call plait_reduce_scatter_in_place(comm, send(:all), PLAIT_SUM, stream)
    call compare_in_place('reduce_scatter', n)

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(b, b, n)
    end do
    call plait_all_gather_in_place(comm, send(:all), stream)
    call compare_in_place('all_gather', n)

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(b, rank, n)
    end do
    call plait_all_to_all_in_place(comm, send(:all), stream)
    call compare_in_place('all_to_all', n)

    ! In symmetric memory all ranks' blocks lie where the root's does.
    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = &
        values(merge(b, rank, rank == root), merge(root, b, rank == root), n)
    end do
    if (rank == root) then
      call plait_gather_in_place(comm, send(:all), root, stream)
    else
      call plait_gather_in_place(comm, send(root * n + 1:all), root, stream)
    end if
    call compare_in_place('gather', n)

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:(b + 1) * n) = values(rank, b, n)
    end do
    expected(root * n + 1:all) = values(root, rank, n)
    if (rank == root) then
      call plait_scatter_in_place(comm, send(:all), root, stream)
    else
      call plait_scatter_in_place(comm, send(root * n + 1:all), root, stream)
    end if
    call compare_in_place('scatter', n)
  end subroutine

  !> Blocks of nothing, a half and a whole n, in turns over the ranks.
  subroutine counts_per_rank(n)
    integer, intent(in) :: n
    integer(c_size_t) :: counts(0:ranks - 1), at(0:ranks - 1)
    real(real64) :: all_sums(n * ranks)
    integer :: own, begin, total, root, b, j
    counts = [(n * mod(b + 1, 3) / 2, b = 0, ranks - 1)]
    at = [(b * n, b = 0, ranks - 1)]
    own = int(counts(rank))
    begin = int(sum(counts(:rank - 1)))
    total = int(sum(counts))
    root = ranks - 1

    call fill(n)
    do b = 0, ranks - 1
      expected(b * n + 1:b * n + counts(b)) = values(b, 0, int(counts(b)))
    end do
    call plait_all_gather_v(comm, send(:own), recv(:n * ranks), counts, at, stream)
    call compare('all_gather_v of ', n)

    call fill(n)
    expected(:own) = [(value(root, rank * n + j), j = 1, own)]
    call plait_scatter_v(comm, send(:n * ranks), counts, at, recv(:own), root, stream)
    call compare('scatter_v of ', n)

    call fill(n)
    do b = 0, ranks - 1
      all_sums(b * n + 1:(b + 1) * n) = sums(b, n)
    end do
    expected(:own) = all_sums(begin + 1:begin + own)
    call plait_reduce_scatter_v(comm, send(:total), counts, recv(:own), PLAIT_SUM, stream)
    call compare('reduce_scatter_v of ', n)
  end subroutine

  subroutine messages(n)
    integer, intent(in) :: n
    integer :: next, before
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    call fill(n)
    expected(:n) = values(before, 0, n)
    call plait_send_recv(comm, send(:n), next, recv(:n), before, stream)
    call compare('send_recv of ', n)
    call fill(n)
    expected(:n) = values(before, 0, n)
    call plait_send_recv(comm, send(:n), next, recv(:n), before, stream, &
      plait_options(symmetric=.true.))
    call compare('send_recv, straight into symmetric memory, of ', n)
    call fill(n)
    expected(:n) = values(before, 0, n)
    call plait_group_start()
    call plait_send(comm, send(:n), next, stream)
    call plait_recv(comm, recv(:n), before, stream)
    call plait_group_end()
    call compare('send and recv of ', n)
  end subroutine

end program
