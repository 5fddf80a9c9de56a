! Communicators: making one, its symmetric memory, and questions to it.
module communicators
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: real32, real64
  use mpi_f08
  use plait_mpi
  use checks
  implicit none
  private
  public :: create, symmetric_memory, questions

contains

  subroutine create()
    type(plait_comm) :: other, part
    type(plait_config) :: config
    type(plait_unique_id) :: id
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
    if (rank == 0) call plait_unique_id_create(id)
    call MPI_Bcast(id%bytes, size(id%bytes), MPI_BYTE, 0, MPI_COMM_WORLD)
    call plait_comm_create_with_id(id, rank, ranks, part, config)
    call check(plait_comm_rank(part) == rank .and. plait_comm_size(part) == ranks, 'unique id')
    call plait_comm_destroy(part)
    call plait_comm_split(other, color=merge(-1, 0, rank == 0), key=0, part=part)
    call check(c_associated(part%handle) .neqv. rank == 0, 'split')
    if (rank /= 0) call plait_comm_destroy(part)
    call plait_comm_duplicate(other, part)
    call plait_comm_destroy(other)
    call check(plait_comm_rank(part) == rank, 'duplicate')
    call plait_comm_destroy(part)
    config%reproducible = 1
    call plait_comm_create(MPI_COMM_WORLD%MPI_VAL, other, config)
    call check(index(plait_explain(other, call), 'reproducible: ') > 0, 'reproducible')
    call check(index(plait_explain(comm, call), 'reproducible: ') == 0, 'not reproducible')
    call plait_comm_destroy(other)
    ! The sizes of C's structures as the module states them.
    call check(config%size == c_sizeof(config) .and. call%size == c_sizeof(call), &
      'size of plait_config or plait_call')
    call check(statistics%size == c_sizeof(statistics) .and. &
      progress%size == c_sizeof(progress), 'size of statistics or progress')
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

  subroutine questions()
    type(plait_call) :: call
    type(plait_statistics) :: statistics
    type(plait_progress) :: progress
    call%count = 100
    call check(plait_chosen(comm, call, plait_options(algorithm='ring')) == 'ring', 'chosen')
    call check(index(plait_explain(comm, call), 'all_reduce') > 0, 'explain')
    statistics = plait_statistics_of(comm)
    progress = plait_progress_of(comm)
    call check(statistics%calls > 10 .and. statistics%groups > 2 .and. &
      statistics%fifo_bytes > 0, 'statistics')
    call check(progress%blocks > 0 .and. progress%started == progress%completed, 'progress')
    call check(plait_async_error(comm) == PLAIT_SUCCESS, 'async_error')
    call check(plait_version() >= 100 .and. plait_status_name(PLAIT_ERROR_TIMEOUT) == 'timeout', &
      'version or status name')
    call check(plait_size_of(PLAIT_BF16) == 2, 'size_of')
  end subroutine
end module
