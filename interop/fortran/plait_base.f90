! The procedures of module plait that do not depend on an element type: communicators, memory,
! streams, errors, and collectives and messages on addresses.
module plait_base
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use plait_c
  implicit none
  private

  !> A communicator. A copy is the same communicator: once it is destroyed, all copies are refused.
  type, public :: plait_comm
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> Symmetric memory. A copy is the same memory.
  type, public :: plait_buffer
    type(c_ptr) :: handle = c_null_ptr
  end type

  !> Wishes for one call: plait_options(algorithm="ring"). Equal on all ranks.
  type, public :: plait_options
    character(:), allocatable :: algorithm
    real(c_double) :: scale = 1  ! factor of PLAIT_PREMUL_SUM
    integer(c_int) :: blocks = 0, threads = 0
    ! Only for plait_send_recv: recv lies in symmetric memory, at the same offset on both ends
    ! (plait.h).
    logical :: symmetric = .false.
  end type

  !> The options for C, and the text that they point to.
  type :: c_options
    type(plait_c_call_options) :: options
    character(kind=c_char, len=1), allocatable :: algorithm(:)
  end type

  interface plait_all_reduce
    module procedure all_reduce_at
  end interface
  interface plait_reduce_scatter
    module procedure reduce_scatter_at
  end interface
  interface plait_all_gather
    module procedure all_gather_at
  end interface
  interface plait_broadcast
    module procedure broadcast_at
  end interface
  interface plait_reduce
    module procedure reduce_at
  end interface
  interface plait_all_to_all
    module procedure all_to_all_at
  end interface
  interface plait_gather
    module procedure gather_at
  end interface
  interface plait_scatter
    module procedure scatter_at
  end interface
  interface plait_send
    module procedure send_at
  end interface
  interface plait_recv
    module procedure recv_at
  end interface
  interface plait_send_recv
    module procedure send_recv_at
  end interface
  interface plait_all_to_all_v
    module procedure all_to_all_v_at
  end interface

  public :: plait_config, plait_call, plait_statistics, plait_progress
  public :: PLAIT_SUCCESS, PLAIT_ERROR_INVALID_ARGUMENT, PLAIT_ERROR_UNSUPPORTED, &
    PLAIT_ERROR_MISMATCH, PLAIT_ERROR_NO_PEER_ACCESS, PLAIT_ERROR_OUT_OF_MEMORY, &
    PLAIT_ERROR_TIMEOUT, PLAIT_ERROR_ABORTED, PLAIT_ERROR_RANK_LOST, PLAIT_ERROR_BACKEND, &
    PLAIT_ERROR_BOOTSTRAP, PLAIT_ERROR_INTERNAL
  public :: PLAIT_I8, PLAIT_U8, PLAIT_I32, PLAIT_U32, PLAIT_I64, PLAIT_U64, PLAIT_F16, PLAIT_BF16, &
    PLAIT_F8E4M3, PLAIT_F8E5M2, PLAIT_F32, PLAIT_F64
  public :: PLAIT_SUM, PLAIT_PROD, PLAIT_MIN, PLAIT_MAX, PLAIT_AVG, PLAIT_PREMUL_SUM
  public :: PLAIT_CALL_ALL_REDUCE, PLAIT_CALL_REDUCE_SCATTER, PLAIT_CALL_ALL_GATHER, &
    PLAIT_CALL_BROADCAST, PLAIT_CALL_REDUCE, PLAIT_CALL_ALL_TO_ALL, PLAIT_CALL_GATHER, &
    PLAIT_CALL_SCATTER, PLAIT_CALL_SEND_RECV, PLAIT_CALL_BARRIER
  public :: PLAIT_BACKEND_CHOSEN, PLAIT_BACKEND_HOST, PLAIT_BACKEND_CUDA, PLAIT_BACKEND_HIP
  public :: plait_last_error, plait_status_name, plait_version, plait_size_of, plait_refuse
  public :: plait_comm_create, plait_comm_create_world, plait_comm_split, plait_comm_duplicate, &
    plait_comm_destroy
  public :: plait_comm_rank, plait_comm_size, plait_comm_backend, plait_comm_describe
  public :: plait_reserve, plait_buffer_allocate, plait_buffer_free, plait_buffer_pointer, &
    plait_buffer_bytes, plait_is_symmetric
  public :: plait_stream_create, plait_stream_destroy, plait_copy
  public :: plait_all_reduce, plait_reduce_scatter, plait_all_gather, plait_broadcast, &
    plait_reduce, plait_all_to_all, plait_gather, plait_scatter, plait_barrier, plait_enqueue, &
    plait_group_start, plait_group_end
  public :: plait_send, plait_recv, plait_send_recv, plait_all_to_all_v
  public :: plait_synchronize, plait_async_error, plait_abort, plait_progress_of, &
    plait_statistics_of, plait_chosen, plait_explain

contains

  ! --- errors -------------------------------------------------------------------------------------

  !> This thread's latest error in one sentence.
  function plait_last_error() result(sentence)
    character(:), allocatable :: sentence
    sentence = text_at(c_last_error())
  end function

  function plait_status_name(status) result(name)
    integer, intent(in) :: status
    character(:), allocatable :: name
    name = text_at(c_status_name(int(status, c_int)))
  end function

  !> Version of the library: 10000 major + 100 minor + patch.
  integer function plait_version()
    plait_version = c_version()
  end function

  !> Reports an error that this interface found itself.
  subroutine plait_refuse(sentence, status)
    character(*), intent(in) :: sentence
    integer, intent(out), optional :: status
    call finish(c_refuse(sentence // c_null_char), status)
  end subroutine

  !> The end of each procedure: returns the status if the caller asks for it; else an error stops
  !> the program with its sentence.
  subroutine finish(code, status)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: status
    if (present(status)) then
      status = code
    else if (code /= PLAIT_SUCCESS) then
      write (error_unit, '(a)') plait_last_error()
      flush (error_unit)
      error stop 1
    end if
  end subroutine

  function text_at(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(address, letters, [c_strlen(address)])
    allocate (character(size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

  integer(c_size_t) function plait_size_of(type, status)
    integer(c_int), intent(in) :: type
    integer, intent(out), optional :: status
    plait_size_of = 0
    call finish(c_size_of(type, plait_size_of), status)
  end function

  ! --- communicators ------------------------------------------------------------------------------

  !> One rank per process of the MPI communicator `mpi`: an integer, or comm%MPI_VAL of mpi_f08. MPI
  !> must be initialised. Collective.
  subroutine plait_comm_create(mpi, comm, config, status)
    integer, intent(in) :: mpi
    type(plait_comm), intent(out) :: comm
    type(plait_config), intent(in), optional :: config
    integer, intent(out), optional :: status
    call finish(c_comm_create_fortran(int(mpi, c_int), config, comm%handle), status)
  end subroutine

  !> One rank per process of MPI_COMM_WORLD. Initialises MPI if the program has not. Collective.
  subroutine plait_comm_create_world(comm, config, status)
    type(plait_comm), intent(out) :: comm
    type(plait_config), intent(in), optional :: config
    integer, intent(out), optional :: status
    call finish(c_comm_create_world(config, comm%handle), status)
  end subroutine

  !> For a negative colour `part` is no communicator: plait_comm(c_null_ptr). Collective.
  subroutine plait_comm_split(comm, color, key, part, status)
    type(plait_comm), intent(in) :: comm
    integer, intent(in) :: color, key
    type(plait_comm), intent(out) :: part
    integer, intent(out), optional :: status
    call finish(c_comm_split(comm%handle, int(color, c_int), int(key, c_int), part%handle), status)
  end subroutine

  subroutine plait_comm_duplicate(comm, copy, status)
    type(plait_comm), intent(in) :: comm
    type(plait_comm), intent(out) :: copy
    integer, intent(out), optional :: status
    call finish(c_comm_duplicate(comm%handle, copy%handle), status)
  end subroutine

  !> Frees the communicator and its buffers. Collective.
  subroutine plait_comm_destroy(comm, status)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    call finish(c_comm_destroy(comm%handle), status)
  end subroutine

  !> Counts from 0, like MPI.
  integer function plait_comm_rank(comm, status) result(rank)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    integer(c_int) :: value
    value = -1
    call finish(c_comm_rank(comm%handle, value), status)
    rank = value
  end function

  integer function plait_comm_size(comm, status) result(ranks)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    integer(c_int) :: value
    value = -1
    call finish(c_comm_size(comm%handle, value), status)
    ranks = value
  end function

  integer function plait_comm_backend(comm, status) result(backend)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    integer(c_int) :: value
    value = PLAIT_BACKEND_CHOSEN
    call finish(c_comm_backend(comm%handle, value), status)
    backend = value
  end function

  function plait_comm_describe(comm, status) result(text)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: letters(:)
    integer(c_size_t) :: length
    integer(c_int) :: code
    length = 0
    code = c_comm_describe(comm%handle, c_null_ptr, 0_c_size_t, length)
    allocate (letters(length + 1), source=c_null_char)
    if (code == PLAIT_SUCCESS) code = c_comm_describe(comm%handle, c_loc(letters), length + 1, &
      length)
    text = text_at(c_loc(letters))
    call finish(code, status)
  end function

  ! --- memory and streams -------------------------------------------------------------------------

  !> Commits all scratch memory, so that no later call waits for other ranks before it returns.
  !> Collective.
  subroutine plait_reserve(comm, status)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    call finish(c_reserve(comm%handle), status)
  end subroutine

  !> `bytes` zeroed bytes on every rank. Collective.
  subroutine plait_buffer_allocate(comm, bytes, buffer, status)
    type(plait_comm), intent(in) :: comm
    integer(c_size_t), intent(in) :: bytes
    type(plait_buffer), intent(out) :: buffer
    integer, intent(out), optional :: status
    call finish(c_buffer_allocate(comm%handle, bytes, buffer%handle), status)
  end subroutine

  subroutine plait_buffer_free(buffer, status)
    type(plait_buffer), intent(in) :: buffer
    integer, intent(out), optional :: status
    call finish(c_buffer_free(buffer%handle), status)
  end subroutine

  !> Address of this rank's part: device memory on a GPU.
  type(c_ptr) function plait_buffer_pointer(buffer, status) result(pointer)
    type(plait_buffer), intent(in) :: buffer
    integer, intent(out), optional :: status
    pointer = c_null_ptr
    call finish(c_buffer_pointer(buffer%handle, pointer), status)
  end function

  integer(c_size_t) function plait_buffer_bytes(buffer, status) result(bytes)
    type(plait_buffer), intent(in) :: buffer
    integer, intent(out), optional :: status
    bytes = 0
    call finish(c_buffer_bytes(buffer%handle, bytes), status)
  end function

  logical function plait_is_symmetric(comm, pointer, bytes, status) result(symmetric)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: pointer
    integer(c_size_t), intent(in) :: bytes
    integer, intent(out), optional :: status
    integer(c_int) :: value
    value = 0
    call finish(c_is_symmetric(comm%handle, pointer, bytes, value), status)
    symmetric = value /= 0
  end function

  subroutine plait_stream_create(comm, stream, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(out) :: stream
    integer, intent(out), optional :: status
    stream = c_null_ptr
    call finish(c_stream_create(comm%handle, stream), status)
  end subroutine

  subroutine plait_stream_destroy(stream, status)
    type(c_ptr), intent(in) :: stream
    integer, intent(out), optional :: status
    call finish(c_stream_destroy(stream), status)
  end subroutine

  !> Copies between any two places in this rank's device memory and host memory. Asynchronous.
  subroutine plait_copy(comm, to, from, bytes, stream, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: to, from
    integer(c_size_t), intent(in) :: bytes
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: status
    call finish(c_copy(comm%handle, to, from, bytes, or_default(stream)), status)
  end subroutine

  type(c_ptr) function or_default(stream) result(chosen)
    type(c_ptr), intent(in), optional :: stream
    chosen = c_null_ptr
    if (present(stream)) chosen = stream
  end function

  ! --- collectives on addresses -------------------------------------------------------------------

  !> Makes the options for C. `made` must be a target for as long as the call takes.
  subroutine set_options(made, options)
    type(c_options), intent(out), target :: made
    type(plait_options), intent(in), optional :: options
    integer :: i, length
    if (.not. present(options)) return
    made%options%scale = options%scale
    made%options%blocks = options%blocks
    made%options%threads = options%threads
    made%options%symmetric = merge(1, 0, options%symmetric)
    if (.not. allocated(options%algorithm)) return
    length = len_trim(options%algorithm)
    allocate (made%algorithm(length + 1))
    do i = 1, length
      made%algorithm(i) = options%algorithm(i:i)
    end do
    made%algorithm(length + 1) = c_null_char
    made%options%algorithm = c_loc(made%algorithm)
  end subroutine

  subroutine all_reduce_at(comm, send, recv, count, type, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_all_reduce(comm%handle, send, recv, count, int(type, c_int), int(op, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine reduce_scatter_at(comm, send, recv, count, type, op, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, op
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_reduce_scatter(comm%handle, send, recv, count, int(type, c_int), int(op, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine all_gather_at(comm, send, recv, count, type, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_all_gather(comm%handle, send, recv, count, int(type, c_int), or_default(stream), &
      made%options), status)
  end subroutine

  subroutine broadcast_at(comm, send, recv, count, type, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_broadcast(comm%handle, send, recv, count, int(type, c_int), int(root, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine reduce_at(comm, send, recv, count, type, op, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, op, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_reduce(comm%handle, send, recv, count, int(type, c_int), int(op, c_int), &
      int(root, c_int), or_default(stream), made%options), status)
  end subroutine

  subroutine all_to_all_at(comm, send, recv, count, type, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_all_to_all(comm%handle, send, recv, count, int(type, c_int), or_default(stream), &
      made%options), status)
  end subroutine

  subroutine gather_at(comm, send, recv, count, type, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_gather(comm%handle, send, recv, count, int(type, c_int), int(root, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine scatter_at(comm, send, recv, count, type, root, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, root
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_scatter(comm%handle, send, recv, count, int(type, c_int), int(root, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine send_at(comm, data, count, type, to, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, to
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_send(comm%handle, data, count, int(type, c_int), int(to, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine recv_at(comm, data, count, type, from, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: data
    integer(c_size_t), intent(in) :: count
    integer, intent(in) :: type, from
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_recv(comm%handle, data, count, int(type, c_int), int(from, c_int), &
      or_default(stream), made%options), status)
  end subroutine

  subroutine send_recv_at(comm, send, send_count, to, recv, recv_count, from, type, stream, &
    options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_count, recv_count
    integer, intent(in) :: to, from, type
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_send_recv(comm%handle, send, send_count, int(to, c_int), recv, recv_count, &
      int(from, c_int), int(type, c_int), or_default(stream), made%options), status)
  end subroutine

  !> Counts and displacements have one entry per rank, in elements; displacements begin at 0. They
  !> are used only during the call.
  subroutine all_to_all_v_at(comm, send, send_counts, send_displacements, recv, recv_counts, &
    recv_displacements, type, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in) :: send, recv
    integer(c_size_t), intent(in) :: send_counts(:), send_displacements(:), recv_counts(:), &
      recv_displacements(:)
    integer, intent(in) :: type
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    integer :: ranks, problem
    character(200) :: sentence
    ranks = plait_comm_size(comm, problem)  ! C refuses an invalid communicator
    if (problem == PLAIT_SUCCESS .and. &
        any([size(send_counts), size(send_displacements), size(recv_counts), &
        size(recv_displacements)] /= ranks)) then
      write (sentence, '(6(a, i0), a)') 'plait_all_to_all_v: rank ', plait_comm_rank(comm), &
        ': there are ', size(send_counts), ' send counts, ', size(send_displacements), &
        ' send displacements, ', size(recv_counts), ' recv counts and ', &
        size(recv_displacements), ' recv displacements for ', ranks, ' ranks'
      call plait_refuse(trim(sentence), status)
      return
    end if
    call set_options(made, options)
    call finish(c_all_to_all_v(comm%handle, send, send_counts, send_displacements, recv, &
      recv_counts, recv_displacements, int(type, c_int), or_default(stream), made%options), status)
  end subroutine

  subroutine plait_barrier(comm, stream, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: status
    call finish(c_barrier(comm%handle, or_default(stream)), status)
  end subroutine

  !> Any collective, for programs that learn at run time which one.
  subroutine plait_enqueue(comm, call, send, recv, stream, options, status)
    type(plait_comm), intent(in) :: comm
    type(plait_call), intent(in) :: call
    type(c_ptr), intent(in) :: send, recv
    type(c_ptr), intent(in), optional :: stream
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    type(c_options), target :: made
    call set_options(made, options)
    call finish(c_enqueue(comm%handle, call, send, recv, or_default(stream), made%options), status)
  end subroutine

  subroutine plait_group_start(status)
    integer, intent(out), optional :: status
    call finish(c_group_start(), status)
  end subroutine

  subroutine plait_group_end(status)
    integer, intent(out), optional :: status
    call finish(c_group_end(), status)
  end subroutine

  ! --- the end of calls, and what became of them --------------------------------------------------

  !> Waits until the stream is empty. Only then may arrays of its calls be read, changed or
  !> deallocated.
  subroutine plait_synchronize(comm, stream, status)
    type(plait_comm), intent(in) :: comm
    type(c_ptr), intent(in), optional :: stream
    integer, intent(out), optional :: status
    call finish(c_synchronize(comm%handle, or_default(stream)), status)
  end subroutine

  !> The error that broke the communicator, or PLAIT_SUCCESS.
  integer function plait_async_error(comm, status) result(error)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    integer(c_int) :: value
    value = PLAIT_SUCCESS
    call finish(c_async_error(comm%handle, value), status)
    error = value
  end function

  subroutine plait_abort(comm, reason, status)
    type(plait_comm), intent(in) :: comm
    character(*), intent(in) :: reason
    integer, intent(out), optional :: status
    call finish(c_abort(comm%handle, reason // c_null_char), status)
  end subroutine

  type(plait_progress) function plait_progress_of(comm, status) result(progress)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    call finish(c_progress_of(comm%handle, progress), status)
  end function

  type(plait_statistics) function plait_statistics_of(comm, status) result(statistics)
    type(plait_comm), intent(in) :: comm
    integer, intent(out), optional :: status
    call finish(c_statistics_of(comm%handle, statistics), status)
  end function

  !> Name of the algorithm that a call would take.
  function plait_chosen(comm, call, options, status) result(text)
    type(plait_comm), intent(in) :: comm
    type(plait_call), intent(in) :: call
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: letters(:)
    type(c_options), target :: made
    integer(c_size_t) :: length
    integer(c_int) :: code
    call set_options(made, options)
    length = 0
    code = c_chosen(comm%handle, call, made%options, c_null_ptr, 0_c_size_t, length)
    allocate (letters(length + 1), source=c_null_char)
    if (code == PLAIT_SUCCESS) code = c_chosen(comm%handle, call, made%options, c_loc(letters), &
      length + 1, length)
    text = text_at(c_loc(letters))
    call finish(code, status)
  end function

  !> Which algorithm a call would take, by which rule, and why not the others: several lines.
  function plait_explain(comm, call, options, status) result(text)
    type(plait_comm), intent(in) :: comm
    type(plait_call), intent(in) :: call
    type(plait_options), intent(in), optional :: options
    integer, intent(out), optional :: status
    character(:), allocatable :: text
    character(kind=c_char), allocatable, target :: letters(:)
    type(c_options), target :: made
    integer(c_size_t) :: length
    integer(c_int) :: code
    call set_options(made, options)
    length = 0
    code = c_explain(comm%handle, call, made%options, c_null_ptr, 0_c_size_t, length)
    allocate (letters(length + 1), source=c_null_char)
    if (code == PLAIT_SUCCESS) code = c_explain(comm%handle, call, made%options, c_loc(letters), &
      length + 1, length)
    text = text_at(c_loc(letters))
    call finish(code, status)
  end function
end module plait_base
