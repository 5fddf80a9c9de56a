/* Arguments that the C interface refuses: handles, null pointers and numbers. */
#include "c_test.h"

/* Every function that takes a communicator, with good arguments otherwise. */
#define CALLS_WITH_COMMUNICATOR(CALL)                                                    \
  CALL(comm_split, (on, 0, 0, &made))                                                    \
  CALL(comm_duplicate, (on, &made))                                                      \
  CALL(comm_destroy, (on))                                                               \
  CALL(comm_rank, (on, &n))                                                              \
  CALL(comm_size, (on, &n))                                                              \
  CALL(comm_backend, (on, &backend))                                                     \
  CALL(comm_describe, (on, text, sizeof text, &length))                                  \
  CALL(reserve, (on))                                                                    \
  CALL(buffer_allocate, (on, 64, &buffer))                                               \
  CALL(is_symmetric, (on, x, 4, &n))                                                     \
  CALL(stream_create, (on, &native))                                                     \
  CALL(event_create, (on, &event))                                                       \
  CALL(event_record, (on, &n, NULL))                                                     \
  CALL(event_wait, (on, &n, NULL))                                                       \
  CALL(event_test, (on, &n, &n))                                                         \
  CALL(event_synchronize, (on, &n))                                                      \
  CALL(copy, (on, x, x + 8, 4, NULL))                                                    \
  CALL(barrier, (on, NULL))                                                              \
  CALL(enqueue, (on, &call, x, x, NULL, NULL))                                           \
  CALL(synchronize, (on, NULL))                                                          \
  CALL(test, (on, NULL, &n))                                                             \
  CALL(wait_any, (on, &native, 1, &length))                                              \
  CALL(async_error, (on, &status))                                                       \
  CALL(abort, (on, "test"))                                                              \
  CALL(progress_of, (on, &progress))                                                     \
  CALL(statistics_of, (on, &statistics))                                                 \
  CALL(chosen, (on, &call, NULL, text, sizeof text, &length))                            \
  CALL(explain, (on, &call, NULL, text, sizeof text, &length))                           \
  CALL(send, (on, x, 1, PLAIT_F32, 0, NULL, NULL))                                       \
  CALL(recv, (on, x, 1, PLAIT_F32, 0, NULL, NULL))                                       \
  CALL(send_recv, (on, x, 1, 0, x + 32, 1, 0, PLAIT_F32, NULL, NULL))                    \
  CALL(all_to_all_v, (on, x, none, none, x + 32, none, none, PLAIT_F32, NULL, NULL))     \
  CALL(all_gather_v, (on, x, 0, x + 32, none, none, PLAIT_F32, NULL, NULL))              \
  CALL(gather_v, (on, x, 0, x + 32, none, none, PLAIT_F32, 0, NULL, NULL))               \
  CALL(scatter_v, (on, x, none, none, x + 32, 0, PLAIT_F32, 0, NULL, NULL))              \
  CALL(reduce_scatter_v, (on, x, none, x + 32, PLAIT_F32, PLAIT_SUM, NULL, NULL))        \
  CALL(neighbor_all_to_all_v,                                                            \
       (on, x, 0, NULL, none, none, x + 32, 0, NULL, none, none, PLAIT_F32, NULL, NULL)) \
  CALL(all_reduce_by, (on, x, x + 32, 1, &op, NULL))                                     \
  CALL(reduce_scatter_by, (on, x, x + 32, 1, &op, NULL))                                 \
  CALL(reduce_by, (on, x, x + 32, 1, &op, 0, NULL))                                      \
  CALL(scan_by, (on, x, x + 32, 1, &op, NULL))                                           \
  CALL(exscan_by, (on, x, x + 32, 1, &op, NULL))

/* Each on a communicator that the sentence must call `wrong`, and so the collectives. */
static void each_refuses(plait_comm on, const char* wrong) {
  static float x[64];
  static char text[64];
  static const size_t none[64];
  int n = 0, row;
  size_t length;
  plait_comm made;
  plait_backend backend;
  plait_buffer buffer;
  plait_stream_t native = NULL;
  plait_event_t event;
  plait_status status;
  plait_call call = PLAIT_CALL_INIT;
  const plait_host_operation op = PLAIT_HOST_OPERATION_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_statistics statistics = PLAIT_STATISTICS_INIT;
#define REFUSES(NAME, ARGUMENTS) \
  INVALID(plait_##NAME ARGUMENTS, "plait_" #NAME ": ", "communicator", wrong);
  CALLS_WITH_COMMUNICATOR(REFUSES)
#undef REFUSES
  for (row = 0; row < rows; ++row) {
    sprintf(text, "plait_%s: ", table[row].name);
    INVALID(by_name(table[row].number, on, x, x + 32, 1, PLAIT_F32, PLAIT_SUM, 0, NULL), text,
            "communicator", wrong);
  }
}

void bad_handles(void) {
  plait_comm dead = NULL;
  plait_buffer of_dead = NULL, live = NULL;
  void* pointer;
  int which = 0;
  OK(plait_comm_duplicate(comm, &dead));
  OK(plait_buffer_allocate(dead, 100, &of_dead));
  OK(plait_buffer_allocate(comm, 100, &live));
  OK(plait_comm_destroy(dead)); /* takes its buffer along */
  INVALID(plait_buffer_pointer(of_dead, &pointer), "plait_buffer_pointer", "buffer",
          "has been destroyed");
  INVALID(plait_buffer_free(of_dead), "plait_buffer_free", "buffer", "has been destroyed");
  each_refuses(dead, "has been destroyed");
  each_refuses(NULL, "is NULL");
  each_refuses((plait_comm)(void*)live, "is a buffer, not a communicator");
  each_refuses((plait_comm)(void*)&which, "0x");
  INVALID(plait_buffer_pointer(NULL, &pointer), "plait_buffer_pointer", "buffer is NULL");
  INVALID(plait_buffer_pointer((plait_buffer)(void*)comm, &pointer),
          "is a communicator, not a buffer");
  INVALID(plait_buffer_free(NULL), "plait_buffer_free", "buffer is NULL");
  OK(plait_buffer_free(live));
  INVALID(plait_stream_destroy(NULL), "plait_stream_destroy", "no stream");
  INVALID(plait_stream_destroy(&which), "plait_stream_destroy", "no stream");
}

void null_pointers(void) {
  plait_buffer buffer = NULL;
  char text[8];
  float x[8] = {0};
  OK(plait_buffer_allocate(comm, 8, &buffer));
  INVALID(plait_comm_create(MPI_COMM_WORLD, NULL, NULL), "plait_comm_create: ", "comm is NULL");
  INVALID(plait_comm_create(MPI_COMM_NULL, NULL, &comm), "MPI_COMM_NULL");
#ifdef OPEN_MPI
  /* Its handles are pointers, and null where Fortran's integer is no communicator's. */
  INVALID(plait_comm_create(NULL, NULL, &comm), "none of MPI's");
  INVALID(plait_comm_create_fortran(-1, NULL, &comm), "none of MPI's");
  INVALID(plait_comm_create_fortran(4711, NULL, &comm), "none of MPI's");
#endif
  INVALID(plait_comm_create_world(NULL, NULL), "plait_comm_create_world", "comm is NULL");
  INVALID(plait_comm_create_fortran(0, NULL, NULL), "plait_comm_create_fortran", "comm is NULL");
  INVALID(plait_comm_split(comm, 0, 0, NULL), "plait_comm_split", "part is NULL");
  INVALID(plait_comm_duplicate(comm, NULL), "plait_comm_duplicate", "copy is NULL");
  INVALID(plait_comm_rank(comm, NULL), "plait_comm_rank: rank ", "rank is NULL");
  INVALID(plait_comm_size(comm, NULL), "plait_comm_size", "size is NULL");
  INVALID(plait_comm_backend(comm, NULL), "plait_comm_backend", "backend is NULL");
  INVALID(plait_comm_describe(comm, NULL, 7, NULL), "plait_comm_describe", "text is NULL", "7");
  INVALID(plait_buffer_allocate(comm, 8, NULL), "plait_buffer_allocate", "buffer is NULL");
  INVALID(plait_buffer_pointer(buffer, NULL), "plait_buffer_pointer", "pointer is NULL");
  INVALID(plait_buffer_bytes(buffer, NULL), "plait_buffer_bytes", "bytes is NULL");
  INVALID(plait_is_symmetric(comm, x, 4, NULL), "plait_is_symmetric", "result is NULL");
  INVALID(plait_stream_create(comm, NULL), "plait_stream_create", "stream is NULL");
  INVALID(plait_copy(comm, NULL, x, 4, stream), "copy: rank", "to is null", "4 bytes");
  INVALID(plait_copy(comm, x, NULL, 4, stream), "copy: rank", "from is null", "4 bytes");
  INVALID(plait_all_reduce(comm, NULL, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL),
          "all_reduce: rank", "send is null", "2");
  INVALID(plait_enqueue(comm, NULL, x, x, stream, NULL), "plait_enqueue: rank", "call is NULL");
  INVALID(plait_async_error(comm, NULL), "plait_async_error", "status is NULL");
  INVALID(plait_progress_of(comm, NULL), "plait_progress_of", "progress is NULL");
  INVALID(plait_statistics_of(comm, NULL), "plait_statistics_of", "statistics is NULL");
  INVALID(plait_chosen(comm, NULL, NULL, text, sizeof text, NULL), "plait_chosen: rank",
          "call is NULL");
  INVALID(plait_explain(comm, NULL, NULL, text, sizeof text, NULL), "plait_explain: rank",
          "call is NULL");
  INVALID(plait_size_of(PLAIT_F32, NULL), "plait_size_of", "bytes is NULL");
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
#define WRONG(NAME, WHAT, ARGUMENTS) \
  INVALID(plait_##NAME ARGUMENTS, "plait_" #NAME ": rank", number, WHAT)
    WRONG(send, "data type", (comm, x, 1, type, rank, stream, NULL));
    WRONG(recv, "data type", (comm, x, 1, type, rank, stream, NULL));
    WRONG(send_recv, "data type", (comm, x, 1, rank, x + 4, 1, rank, type, stream, NULL));
    WRONG(all_to_all_v, "data type", (comm, x, &zero, &zero, x, &zero, &zero, type, stream, NULL));
    WRONG(all_gather_v, "data type", (comm, x, 0, x, &zero, &zero, type, stream, NULL));
    WRONG(gather_v, "data type", (comm, x, 0, x, &zero, &zero, type, rank, stream, NULL));
    WRONG(scatter_v, "data type", (comm, x, &zero, &zero, x, 0, type, rank, stream, NULL));
    WRONG(reduce_scatter_v, "data type", (comm, x, &zero, x, type, PLAIT_SUM, stream, NULL));
    WRONG(reduce_scatter_v, "operation", (comm, x, &zero, x, PLAIT_F32, operation, stream, NULL));
    WRONG(neighbor_all_to_all_v, "data type",
          (comm, x, 0, NULL, NULL, NULL, x, 0, NULL, NULL, NULL, type, stream, NULL));
#undef WRONG
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
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "3 is no backend");
  config.backend = PLAIT_BACKEND_HOST;
  config.device = -2;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "-2 is no device");
  config.device = -1;
  config.timeout_seconds = -5;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world",
          "timeout_seconds is -5");
  CHECK(made == NULL);
  /* The library's own refusals come through. */
  INVALID(plait_broadcast(comm, x, x, 1, PLAIT_F32, ranks, stream, NULL), "broadcast: rank",
          "root");
  REFUSED(PLAIT_ERROR_UNSUPPORTED,
          plait_all_reduce(comm, x, x, 1, PLAIT_I32, PLAIT_PREMUL_SUM, stream, NULL), "premul_sum",
          "i32", "rank");
}
