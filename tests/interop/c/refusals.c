/* Arguments that the C interface refuses: handles, null pointers and numbers. */
#include "c_test.h"

/* Every function that takes a communicator, with good arguments otherwise: the collectives of the
 * table are the last. */
enum { calls_with_communicator = 35 };
static plait_status call_with(plait_comm on, int which) {
  static float x[64];
  static char text[64];
  static const size_t none[64];
  int n;
  size_t length;
  plait_comm made;
  plait_backend backend;
  plait_buffer buffer;
  plait_stream_t native;
  plait_status status;
  plait_call call = PLAIT_CALL_INIT;
  const plait_host_operation op = PLAIT_HOST_OPERATION_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_statistics statistics = PLAIT_STATISTICS_INIT;
  if (which >= calls_with_communicator)
    return by_name(table[which - calls_with_communicator].number, on, x, x + 32, 1, PLAIT_F32,
                   PLAIT_SUM, 0, NULL);
  switch (which) {
    case 0:
      return plait_comm_split(on, 0, 0, &made);
    case 1:
      return plait_comm_duplicate(on, &made);
    case 2:
      return plait_comm_destroy(on);
    case 3:
      return plait_comm_rank(on, &n);
    case 4:
      return plait_comm_size(on, &n);
    case 5:
      return plait_comm_backend(on, &backend);
    case 6:
      return plait_comm_describe(on, text, sizeof text, &length);
    case 7:
      return plait_buffer_allocate(on, 64, &buffer);
    case 8:
      return plait_is_symmetric(on, x, 4, &n);
    case 9:
      return plait_stream_create(on, &native);
    case 10:
      return plait_copy(on, x, x + 8, 4, NULL);
    case 11:
      return plait_barrier(on, NULL);
    case 12:
      return plait_enqueue(on, &call, x, x, NULL, NULL);
    case 13:
      return plait_synchronize(on, NULL);
    case 14:
      return plait_async_error(on, &status);
    case 15:
      return plait_abort(on, "test");
    case 16:
      return plait_progress_of(on, &progress);
    case 17:
      return plait_statistics_of(on, &statistics);
    case 18:
      return plait_chosen(on, &call, NULL, text, sizeof text, &length);
    case 19:
      return plait_explain(on, &call, NULL, text, sizeof text, &length);
    case 20:
      return plait_send(on, x, 1, PLAIT_F32, 0, NULL, NULL);
    case 21:
      return plait_recv(on, x, 1, PLAIT_F32, 0, NULL, NULL);
    case 22:
      return plait_send_recv(on, x, 1, 0, x + 32, 1, 0, PLAIT_F32, NULL, NULL);
    case 23:
      return plait_reserve(on);
    case 24:
      return plait_all_gather_v(on, x, 0, x + 32, none, none, PLAIT_F32, NULL, NULL);
    case 25:
      return plait_gather_v(on, x, 0, x + 32, none, none, PLAIT_F32, 0, NULL, NULL);
    case 26:
      return plait_scatter_v(on, x, none, none, x + 32, 0, PLAIT_F32, 0, NULL, NULL);
    case 27:
      return plait_neighbor_all_to_all_v(on, x, 0, NULL, none, none, x + 32, 0, NULL, none, none,
                                         PLAIT_F32, NULL, NULL);
    case 28:
      return plait_reduce_scatter_v(on, x, none, x + 32, PLAIT_F32, PLAIT_SUM, NULL, NULL);
    case 29:
      return plait_all_reduce_by(on, x, x + 32, 1, &op, NULL);
    case 30:
      return plait_reduce_scatter_by(on, x, x + 32, 1, &op, NULL);
    case 31:
      return plait_reduce_by(on, x, x + 32, 1, &op, 0, NULL);
    case 32:
      return plait_scan_by(on, x, x + 32, 1, &op, NULL);
    case 33:
      return plait_exscan_by(on, x, x + 32, 1, &op, NULL);
    default:
      return plait_all_to_all_v(on, x, none, none, x + 32, none, none, PLAIT_F32, NULL, NULL);
  }
}

void bad_handles(void) {
  static const char* const names[calls_with_communicator] = {"comm_split",
                                                             "comm_duplicate",
                                                             "comm_destroy",
                                                             "comm_rank",
                                                             "comm_size",
                                                             "comm_backend",
                                                             "comm_describe",
                                                             "buffer_allocate",
                                                             "is_symmetric",
                                                             "stream_create",
                                                             "copy",
                                                             "barrier",
                                                             "enqueue",
                                                             "synchronize",
                                                             "async_error",
                                                             "abort",
                                                             "progress_of",
                                                             "statistics_of",
                                                             "chosen",
                                                             "explain",
                                                             "send",
                                                             "recv",
                                                             "send_recv",
                                                             "reserve",
                                                             "all_gather_v",
                                                             "gather_v",
                                                             "scatter_v",
                                                             "neighbor_all_to_all_v",
                                                             "reduce_scatter_v",
                                                             "all_reduce_by",
                                                             "reduce_scatter_by",
                                                             "reduce_by",
                                                             "scan_by",
                                                             "exscan_by",
                                                             "all_to_all_v"};
  plait_comm dead = NULL;
  plait_buffer of_dead = NULL, live = NULL;
  void* pointer;
  int which;
  OK(plait_comm_duplicate(comm, &dead));
  OK(plait_buffer_allocate(dead, 100, &of_dead));
  OK(plait_buffer_allocate(comm, 100, &live));
  OK(plait_comm_destroy(dead)); /* takes its buffer along */
  INVALID(plait_buffer_pointer(of_dead, &pointer), "plait_buffer_pointer", "buffer",
          "has been destroyed");
  INVALID(plait_buffer_free(of_dead), "plait_buffer_free", "buffer", "has been destroyed");
  for (which = 0; which < calls_with_communicator + rows; ++which) {
    const int row = which - calls_with_communicator;
    char name[64];
    sprintf(name, "plait_%s: ", row < 0 ? names[which] : table[row].name);
    INVALID(call_with(dead, which), name, "communicator", "has been destroyed");
    INVALID(call_with(NULL, which), name, "communicator", "is NULL");
    INVALID(call_with((plait_comm)(void*)live, which), name, "is a buffer, not a communicator", "");
    INVALID(call_with((plait_comm)(void*)&which, which), name, "0x", "communicator");
  }
  INVALID(plait_buffer_pointer(NULL, &pointer), "plait_buffer_pointer", "buffer is NULL", "");
  INVALID(plait_buffer_pointer((plait_buffer)(void*)comm, &pointer),
          "is a communicator, not a buffer", "", "");
  INVALID(plait_buffer_free(NULL), "plait_buffer_free", "buffer is NULL", "");
  OK(plait_buffer_free(live));
  INVALID(plait_stream_destroy(NULL), "plait_stream_destroy", "no stream", "");
  INVALID(plait_stream_destroy(&which), "plait_stream_destroy", "no stream", "");
}

void null_pointers(void) {
  plait_buffer buffer = NULL;
  char text[8];
  float x[8] = {0};
  OK(plait_buffer_allocate(comm, 8, &buffer));
  INVALID(plait_comm_create(MPI_COMM_WORLD, NULL, NULL), "plait_comm_create: ", "comm is NULL", "");
  INVALID(plait_comm_create(MPI_COMM_NULL, NULL, &comm), "MPI_COMM_NULL", "", "");
#ifdef OPEN_MPI
  /* Its handles are pointers, and null where Fortran's integer is no communicator's. */
  INVALID(plait_comm_create(NULL, NULL, &comm), "none of MPI's", "", "");
  INVALID(plait_comm_create_fortran(-1, NULL, &comm), "none of MPI's", "", "");
  INVALID(plait_comm_create_fortran(4711, NULL, &comm), "none of MPI's", "", "");
#endif
  INVALID(plait_comm_create_world(NULL, NULL), "plait_comm_create_world", "comm is NULL", "");
  INVALID(plait_comm_create_fortran(0, NULL, NULL), "plait_comm_create_fortran", "comm is NULL",
          "");
  INVALID(plait_comm_split(comm, 0, 0, NULL), "plait_comm_split", "part is NULL", "");
  INVALID(plait_comm_duplicate(comm, NULL), "plait_comm_duplicate", "copy is NULL", "");
  INVALID(plait_comm_rank(comm, NULL), "plait_comm_rank: rank ", "rank is NULL", "");
  INVALID(plait_comm_size(comm, NULL), "plait_comm_size", "size is NULL", "");
  INVALID(plait_comm_backend(comm, NULL), "plait_comm_backend", "backend is NULL", "");
  INVALID(plait_comm_describe(comm, NULL, 7, NULL), "plait_comm_describe", "text is NULL", "7");
  INVALID(plait_buffer_allocate(comm, 8, NULL), "plait_buffer_allocate", "buffer is NULL", "");
  INVALID(plait_buffer_pointer(buffer, NULL), "plait_buffer_pointer", "pointer is NULL", "");
  INVALID(plait_buffer_bytes(buffer, NULL), "plait_buffer_bytes", "bytes is NULL", "");
  INVALID(plait_is_symmetric(comm, x, 4, NULL), "plait_is_symmetric", "result is NULL", "");
  INVALID(plait_stream_create(comm, NULL), "plait_stream_create", "stream is NULL", "");
  INVALID(plait_copy(comm, NULL, x, 4, stream), "copy: rank", "to is null", "4 bytes");
  INVALID(plait_copy(comm, x, NULL, 4, stream), "copy: rank", "from is null", "4 bytes");
  INVALID(plait_all_reduce(comm, NULL, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL),
          "all_reduce: rank", "send is null", "2");
  INVALID(plait_enqueue(comm, NULL, x, x, stream, NULL), "plait_enqueue: rank", "call is NULL", "");
  INVALID(plait_async_error(comm, NULL), "plait_async_error", "status is NULL", "");
  INVALID(plait_progress_of(comm, NULL), "plait_progress_of", "progress is NULL", "");
  INVALID(plait_statistics_of(comm, NULL), "plait_statistics_of", "statistics is NULL", "");
  INVALID(plait_chosen(comm, NULL, NULL, text, sizeof text, NULL), "plait_chosen: rank",
          "call is NULL", "");
  INVALID(plait_explain(comm, NULL, NULL, text, sizeof text, NULL), "plait_explain: rank",
          "call is NULL", "");
  INVALID(plait_size_of(PLAIT_F32, NULL), "plait_size_of", "bytes is NULL", "");
  OK(plait_buffer_free(buffer));
}

void bad_numbers(void) {
  static const int wrong[] = {-1,  21,        255, 256,
                              300, 0x7fffffff}; /* 256 would be the first type, cut to a byte */
  float x[8] = {0};
  size_t bytes = 77;
  const size_t zero = 0; /* the type is refused before counts are read */
  unsigned i;
  int row;
  char number[20], text[8];
  plait_call call = PLAIT_CALL_INIT;
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm made = NULL;
  for (i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const plait_data_type type = (plait_data_type)wrong[i];
    const plait_reduce_op operation = (plait_reduce_op)wrong[i];
    sprintf(number, "%d is no ", wrong[i]);
    INVALID(plait_size_of(type, &bytes), "plait_size_of", number, "data type");
    for (row = 0; row < rows; ++row) {
      char name[64];
      sprintf(name, "plait_%s: rank", table[row].name);
      INVALID(by_name(table[row].number, comm, x, x, 1, type, PLAIT_SUM, 0, NULL), name, number,
              "data type");
      if (table[row].op)
        INVALID(by_name(table[row].number, comm, x, x, 1, PLAIT_F32, operation, 0, NULL), name,
                number, "operation");
    }
    INVALID(plait_send(comm, x, 1, type, rank, stream, NULL), "plait_send: rank", number,
            "data type");
    INVALID(plait_recv(comm, x, 1, type, rank, stream, NULL), "plait_recv: rank", number,
            "data type");
    INVALID(plait_send_recv(comm, x, 1, rank, x + 4, 1, rank, type, stream, NULL),
            "plait_send_recv: rank", number, "data type");
    INVALID(plait_all_to_all_v(comm, x, &zero, &zero, x, &zero, &zero, type, stream, NULL),
            "plait_all_to_all_v: rank", number, "data type");
    INVALID(plait_all_gather_v(comm, x, 0, x, &zero, &zero, type, stream, NULL),
            "plait_all_gather_v: rank", number, "data type");
    INVALID(plait_gather_v(comm, x, 0, x, &zero, &zero, type, rank, stream, NULL),
            "plait_gather_v: rank", number, "data type");
    INVALID(plait_scatter_v(comm, x, &zero, &zero, x, 0, type, rank, stream, NULL),
            "plait_scatter_v: rank", number, "data type");
    INVALID(plait_reduce_scatter_v(comm, x, &zero, x, type, PLAIT_SUM, stream, NULL),
            "plait_reduce_scatter_v: rank", number, "data type");
    INVALID(plait_reduce_scatter_v(comm, x, &zero, x, PLAIT_F32, operation, stream, NULL),
            "plait_reduce_scatter_v: rank", number, "operation");
    INVALID(plait_neighbor_all_to_all_v(comm, x, 0, NULL, NULL, NULL, x, 0, NULL, NULL, NULL, type,
                                        stream, NULL),
            "plait_neighbor_all_to_all_v: rank", number, "data type");
    call.collective = (plait_collective)wrong[i];
    INVALID(plait_enqueue(comm, &call, x, x, stream, NULL), "plait_enqueue: rank", number,
            "collective");
    INVALID(plait_chosen(comm, &call, NULL, text, sizeof text, NULL), "plait_chosen: rank", number,
            "collective");
  }
  CHECK(bytes == 77);
  INVALID(
      plait_all_reduce(comm, x, x, 1, PLAIT_F32, (plait_reduce_op)(PLAIT_MAXLOC + 1), stream, NULL),
      "plait_all_reduce: rank", "14 is no operation", "they are 0 to 13");
  config.backend = (plait_backend)3;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "3 is no backend",
          "");
  config.backend = PLAIT_BACKEND_HOST;
  config.device = -2;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "-2 is no device",
          "");
  config.device = -1;
  config.timeout_seconds = -5;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world",
          "timeout_seconds is -5", "");
  CHECK(made == NULL);
  /* The library's own refusals come through. */
  INVALID(plait_broadcast(comm, x, x, 1, PLAIT_F32, ranks, stream, NULL), "broadcast: rank", "root",
          "");
  REFUSED(PLAIT_ERROR_UNSUPPORTED,
          plait_all_reduce(comm, x, x, 1, PLAIT_I32, PLAIT_PREMUL_SUM, stream, NULL), "premul_sum",
          "i32", "rank");
}
