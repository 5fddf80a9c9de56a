! plait.h, word by word, for the other modules. Programs use the module plait.
module plait_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  integer(c_int), parameter :: PLAIT_SUCCESS = 0, PLAIT_ERROR_INVALID_ARGUMENT = 1, &
    PLAIT_ERROR_UNSUPPORTED = 2, PLAIT_ERROR_MISMATCH = 3, PLAIT_ERROR_NO_PEER_ACCESS = 4, &
    PLAIT_ERROR_OUT_OF_MEMORY = 5, PLAIT_ERROR_TIMEOUT = 6, PLAIT_ERROR_ABORTED = 7, &
    PLAIT_ERROR_RANK_LOST = 8, PLAIT_ERROR_BACKEND = 9, PLAIT_ERROR_BOOTSTRAP = 10, &
    PLAIT_ERROR_INTERNAL = 255
  integer(c_int), parameter :: PLAIT_I8 = 0, PLAIT_U8 = 1, PLAIT_I32 = 2, PLAIT_U32 = 3, &
    PLAIT_I64 = 4, PLAIT_U64 = 5, PLAIT_F16 = 6, PLAIT_BF16 = 7, PLAIT_F8E4M3 = 8, &
    PLAIT_F8E5M2 = 9, PLAIT_F32 = 10, PLAIT_F64 = 11
  integer(c_int), parameter :: PLAIT_SUM = 0, PLAIT_PROD = 1, PLAIT_MIN = 2, PLAIT_MAX = 3, &
    PLAIT_AVG = 4, PLAIT_PREMUL_SUM = 5
  ! Named PLAIT_CALL_..., because Fortran does not distinguish PLAIT_REDUCE from the procedure
  ! plait_reduce.
  integer(c_int), parameter :: PLAIT_CALL_ALL_REDUCE = 0, PLAIT_CALL_REDUCE_SCATTER = 1, &
    PLAIT_CALL_ALL_GATHER = 2, PLAIT_CALL_BROADCAST = 3, PLAIT_CALL_REDUCE = 4, &
    PLAIT_CALL_ALL_TO_ALL = 5, PLAIT_CALL_GATHER = 6, PLAIT_CALL_SCATTER = 7, &
    PLAIT_CALL_SEND_RECV = 8, PLAIT_CALL_BARRIER = 9
  integer(c_int), parameter :: PLAIT_BACKEND_CHOSEN = -1, PLAIT_BACKEND_HOST = 0, &
    PLAIT_BACKEND_CUDA = 1, PLAIT_BACKEND_HIP = 2

  ! The sizes are those of the whole structures; tests/interop/fortran_test.f90 compares them.
  type, bind(c) :: plait_config
    integer(c_size_t) :: size = 32
    integer(c_int) :: backend = PLAIT_BACKEND_CHOSEN
    ! -1: the device of this thread's latest communicator, else by the rank's index on its node
    integer(c_int) :: device = -1
    ! -1: PLAIT_TIMEOUT in the environment, else 600; 0: no limit
    real(c_double) :: timeout_seconds = -1
    ! the most memory that algorithms may use on one rank; 0: PLAIT_SCRATCH_BYTES, else the default
    integer(c_size_t) :: scratch_bytes = 0
  end type

  type, bind(c) :: plait_c_call_options
    integer(c_size_t) :: size = 40
    type(c_ptr) :: algorithm = c_null_ptr
    real(c_double) :: scale = 1
    integer(c_int) :: blocks = 0, threads = 0, symmetric = 0
  end type

  type, bind(c) :: plait_call
    integer(c_size_t) :: size = 40
    integer(c_int) :: collective = PLAIT_CALL_ALL_REDUCE, type = PLAIT_F32, op = PLAIT_SUM, root = 0
    integer(c_size_t) :: count = 0
    integer(c_int) :: symmetric = 0, in_place = 0
  end type

  type, bind(c) :: plait_statistics
    integer(c_size_t) :: size = 128
    integer(c_int64_t) :: calls = 0, launches = 0, groups = 0, batched = 0, &
      launches_in_arguments = 0, items_in_arguments = 0, launches_in_fifo = 0, items_in_fifo = 0, &
      launches_persistent = 0, items_persistent = 0, fifo_bytes = 0, fifo_bytes_in_use = 0, &
      fifo_waits = 0, scratch_bytes = 0, scratch_bytes_committed = 0
  end type

  type, bind(c) :: plait_progress
    integer(c_size_t) :: size = 32
    integer(c_int64_t) :: blocks = 0, started = 0, completed = 0
  end type

  interface
    function c_last_error() bind(c, name="plait_last_error") result(text)
      import; type(c_ptr) :: text
    end function
    function c_refuse(sentence) bind(c, name="plait_refuse") result(status)
      import; character(kind=c_char), intent(in) :: sentence(*); integer(c_int) :: status
    end function
    function c_status_name(status) bind(c, name="plait_status_name") result(text)
      import; integer(c_int), value :: status; type(c_ptr) :: text
    end function
    function c_version() bind(c, name="plait_version") result(version)
      import; integer(c_int) :: version
    end function
    function c_size_of(type, bytes) bind(c, name="plait_size_of") result(status)
      import; integer(c_int), value :: type; integer(c_size_t), intent(inout) :: bytes
      integer(c_int) :: status
    end function
    function c_comm_create_world(config, comm) &
      bind(c, name="plait_comm_create_world") result(status)
      import; type(plait_config), intent(in), optional :: config; type(c_ptr), intent(inout) :: comm
      integer(c_int) :: status
    end function
    function c_comm_create_fortran(mpi, config, comm) &
      bind(c, name="plait_comm_create_fortran") result(status)
      import; integer(c_int), value :: mpi; type(plait_config), intent(in), optional :: config
      type(c_ptr), intent(inout) :: comm
      integer(c_int) :: status
    end function
    function c_comm_split(comm, color, key, part) bind(c, name="plait_comm_split") result(status)
      import; type(c_ptr), value :: comm; integer(c_int), value :: color, key
      type(c_ptr), intent(inout) :: part
      integer(c_int) :: status
    end function
    function c_comm_duplicate(comm, copy) bind(c, name="plait_comm_duplicate") result(status)
      import; type(c_ptr), value :: comm; type(c_ptr), intent(inout) :: copy
      integer(c_int) :: status
    end function
    function c_comm_destroy(comm) bind(c, name="plait_comm_destroy") result(status)
      import; type(c_ptr), value :: comm; integer(c_int) :: status
    end function
    function c_comm_rank(comm, rank) bind(c, name="plait_comm_rank") result(status)
      import; type(c_ptr), value :: comm; integer(c_int), intent(inout) :: rank
      integer(c_int) :: status
    end function
    function c_comm_size(comm, size) bind(c, name="plait_comm_size") result(status)
      import; type(c_ptr), value :: comm; integer(c_int), intent(inout) :: size
      integer(c_int) :: status
    end function
    function c_comm_backend(comm, backend) bind(c, name="plait_comm_backend") result(status)
      import; type(c_ptr), value :: comm; integer(c_int), intent(inout) :: backend
      integer(c_int) :: status
    end function
    function c_comm_describe(comm, text, capacity, length) &
      bind(c, name="plait_comm_describe") result(status)
      import; type(c_ptr), value :: comm, text; integer(c_size_t), value :: capacity
      integer(c_size_t), intent(inout) :: length
      integer(c_int) :: status
    end function
    function c_reserve(comm) bind(c, name="plait_reserve") result(status)
      import; type(c_ptr), value :: comm; integer(c_int) :: status
    end function
    function c_buffer_allocate(comm, bytes, buffer) &
      bind(c, name="plait_buffer_allocate") result(status)
      import; type(c_ptr), value :: comm; integer(c_size_t), value :: bytes
      type(c_ptr), intent(inout) :: buffer
      integer(c_int) :: status
    end function
    function c_buffer_free(buffer) bind(c, name="plait_buffer_free") result(status)
      import; type(c_ptr), value :: buffer; integer(c_int) :: status
    end function
    function c_buffer_pointer(buffer, pointer) bind(c, name="plait_buffer_pointer") result(status)
      import; type(c_ptr), value :: buffer; type(c_ptr), intent(inout) :: pointer
      integer(c_int) :: status
    end function
    function c_buffer_bytes(buffer, bytes) bind(c, name="plait_buffer_bytes") result(status)
      import; type(c_ptr), value :: buffer; integer(c_size_t), intent(inout) :: bytes
      integer(c_int) :: status
    end function
    function c_is_symmetric(comm, pointer, bytes, result) &
      bind(c, name="plait_is_symmetric") result(status)
      import; type(c_ptr), value :: comm, pointer; integer(c_size_t), value :: bytes
      integer(c_int), intent(inout) :: result
      integer(c_int) :: status
    end function
    function c_stream_create(comm, stream) bind(c, name="plait_stream_create") result(status)
      import; type(c_ptr), value :: comm; type(c_ptr), intent(inout) :: stream
      integer(c_int) :: status
    end function
    function c_stream_destroy(stream) bind(c, name="plait_stream_destroy") result(status)
      import; type(c_ptr), value :: stream; integer(c_int) :: status
    end function
    function c_copy(comm, to, from, bytes, stream) bind(c, name="plait_copy") result(status)
      import; type(c_ptr), value :: comm, to, from, stream; integer(c_size_t), value :: bytes
      integer(c_int) :: status
    end function
    function c_all_reduce(comm, send, recv, count, type, op, stream, options) &
      bind(c, name="plait_all_reduce") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, op
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_reduce_scatter(comm, send, recv, count, type, op, stream, options) &
      bind(c, name="plait_reduce_scatter") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, op
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_all_gather(comm, send, recv, count, type, stream, options) &
      bind(c, name="plait_all_gather") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_broadcast(comm, send, recv, count, type, root, stream, options) &
      bind(c, name="plait_broadcast") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_reduce(comm, send, recv, count, type, op, root, stream, options) &
      bind(c, name="plait_reduce") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, op, root
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_all_to_all(comm, send, recv, count, type, stream, options) &
      bind(c, name="plait_all_to_all") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_gather(comm, send, recv, count, type, root, stream, options) &
      bind(c, name="plait_gather") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_scatter(comm, send, recv, count, type, root, stream, options) &
      bind(c, name="plait_scatter") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, root
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_send(comm, data, count, type, to, stream, options) &
      bind(c, name="plait_send") result(status)
      import; type(c_ptr), value :: comm, data, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, to
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_recv(comm, data, count, type, from, stream, options) &
      bind(c, name="plait_recv") result(status)
      import; type(c_ptr), value :: comm, data, stream; integer(c_size_t), value :: count
      integer(c_int), value :: type, from
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_send_recv(comm, send, send_count, to, recv, recv_count, from, type, stream, &
      options) bind(c, name="plait_send_recv") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream
      integer(c_size_t), value :: send_count, recv_count
      integer(c_int), value :: to, from, type; type(plait_c_call_options), intent(in) :: options
      integer(c_int) :: status
    end function
    function c_all_to_all_v(comm, send, send_counts, send_displacements, recv, recv_counts, &
      recv_displacements, type, stream, options) bind(c, name="plait_all_to_all_v") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream
      integer(c_size_t), intent(in) :: send_counts(*), send_displacements(*), recv_counts(*), &
        recv_displacements(*)
      integer(c_int), value :: type; type(plait_c_call_options), intent(in) :: options
      integer(c_int) :: status
    end function
    function c_barrier(comm, stream) bind(c, name="plait_barrier") result(status)
      import; type(c_ptr), value :: comm, stream; integer(c_int) :: status
    end function
    function c_enqueue(comm, call, send, recv, stream, options) &
      bind(c, name="plait_enqueue") result(status)
      import; type(c_ptr), value :: comm, send, recv, stream; type(plait_call), intent(in) :: call
      type(plait_c_call_options), intent(in) :: options; integer(c_int) :: status
    end function
    function c_group_start() bind(c, name="plait_group_start") result(status)
      import; integer(c_int) :: status
    end function
    function c_group_end() bind(c, name="plait_group_end") result(status)
      import; integer(c_int) :: status
    end function
    function c_synchronize(comm, stream) bind(c, name="plait_synchronize") result(status)
      import; type(c_ptr), value :: comm, stream; integer(c_int) :: status
    end function
    function c_async_error(comm, error) bind(c, name="plait_async_error") result(status)
      import; type(c_ptr), value :: comm; integer(c_int), intent(inout) :: error
      integer(c_int) :: status
    end function
    function c_abort(comm, reason) bind(c, name="plait_abort") result(status)
      import; type(c_ptr), value :: comm; character(kind=c_char), intent(in) :: reason(*)
      integer(c_int) :: status
    end function
    function c_progress_of(comm, progress) bind(c, name="plait_progress_of") result(status)
      import; type(c_ptr), value :: comm; type(plait_progress), intent(inout) :: progress
      integer(c_int) :: status
    end function
    function c_statistics_of(comm, statistics) bind(c, name="plait_statistics_of") result(status)
      import; type(c_ptr), value :: comm; type(plait_statistics), intent(inout) :: statistics
      integer(c_int) :: status
    end function
    function c_chosen(comm, call, options, text, capacity, length) &
      bind(c, name="plait_chosen") result(status)
      import; type(c_ptr), value :: comm, text; type(plait_call), intent(in) :: call
      type(plait_c_call_options), intent(in) :: options
      integer(c_size_t), value :: capacity; integer(c_size_t), intent(inout) :: length
      integer(c_int) :: status
    end function
    function c_explain(comm, call, options, text, capacity, length) &
      bind(c, name="plait_explain") result(status)
      import; type(c_ptr), value :: comm, text; type(plait_call), intent(in) :: call
      type(plait_c_call_options), intent(in) :: options
      integer(c_size_t), value :: capacity; integer(c_size_t), intent(inout) :: length
      integer(c_int) :: status
    end function
    function c_strlen(text) bind(c, name="strlen") result(length)
      import; type(c_ptr), value :: text; integer(c_size_t) :: length
    end function
  end interface
end module plait_c
