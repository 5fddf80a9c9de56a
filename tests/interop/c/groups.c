/* Groups of calls in the C interface, in symmetric memory and with a refused call. */
#include <stdlib.h>

#include "c_test.h"

void symmetric_memory_and_groups(void) {
  plait_buffer buffer = NULL;
  void* pointer = NULL;
  size_t bytes = 0, i;
  int symmetric = -1, call;
  float* x;
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  OK(plait_buffer_allocate(comm, 4 * count * sizeof *x, &buffer));
  OK(plait_buffer_pointer(buffer, &pointer));
  OK(plait_buffer_bytes(buffer, &bytes));
  CHECK(bytes == 4 * count * sizeof *x);
  OK(plait_is_symmetric(comm, pointer, bytes, &symmetric));
  CHECK(symmetric == 1);
  OK(plait_is_symmetric(comm, &symmetric, 1, &symmetric));
  CHECK(symmetric == 0);
  x = pointer;
  CHECK(x[0] == 0 && x[4 * count - 1] == 0);
  for (i = 0; i < 4 * count; ++i) x[i] = (float)value(rank, 0, i);
  OK(plait_statistics_of(comm, &before));
  OK(plait_group_start());
  for (call = 0; call < 4; ++call)
    OK(plait_all_reduce(comm, x + call * count, x + call * count, count, PLAIT_F32, PLAIT_SUM,
                        stream, NULL));
  OK(plait_group_end());
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < 4 * count; ++i)
    if (x[i] != (float)sum(0, i)) break;
  CHECK(i == 4 * count);
  OK(plait_statistics_of(comm, &after));
  CHECK(after.calls == before.calls + 4 && after.groups == before.groups + 1 &&
        after.fifo_bytes != 0);
  /* straight into the next rank's symmetric memory */
  for (i = 0; i < count; ++i) x[i] = (float)value(rank, 1, i);
  options.algorithm = "pairwise_put";
  options.symmetric = 1;
  OK(plait_send_recv(comm, x, count, next, x + count, count, last, PLAIT_F32, stream, &options));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count; ++i)
    if (x[count + i] != (float)value(last, 1, i)) break;
  CHECK(i == count);
  INVALID(plait_send_recv(comm, x, count, rank, &last, 0, rank, PLAIT_F32, stream, &options),
          "send_recv: rank", "the option `symmetric`", "is not in symmetric memory");
  INVALID(plait_send(comm, x, count, PLAIT_F32, rank, stream, &options), "send: rank",
          "the option `symmetric`", "for send_recv");
  /* by calls of one rank alone */
  OK(plait_put(comm, buffer, next, 2 * count * sizeof *x, x, count * sizeof *x, 1, stream, NULL));
  OK(plait_wait_signal(comm, last, 1, stream, NULL));
  OK(plait_get(comm, buffer, next, 0, x + 3 * count, count * sizeof *x, stream, NULL));
  OK(plait_signal(comm, next, stream, NULL));
  OK(plait_wait_signal(comm, last, 1, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count; ++i)
    if (x[2 * count + i] != (float)value(last, 1, i) ||
        x[3 * count + i] != (float)value(next, 1, i))
      break;
  CHECK(i == count);
  INVALID(plait_put(comm, NULL, next, 0, x, 4, 0, stream, NULL), "plait_put", "buffer is NULL");
  INVALID(plait_get(comm, buffer, next, bytes, x, 4, stream, NULL), "get: rank", "has");
  INVALID(plait_signal(comm, ranks, stream, NULL), "signal: rank", "none of the ranks");
  INVALID(plait_wait_signal(comm, next, 0, stream, NULL), "wait_signal: rank", "0 signals");
  OK(plait_buffer_free(buffer));
  INVALID(plait_buffer_free(buffer), "plait_buffer_free", "buffer", "has been destroyed");
  INVALID(plait_buffer_pointer(buffer, &pointer), "plait_buffer_pointer", "buffer",
          "has been destroyed");
  INVALID(plait_buffer_bytes(buffer, &bytes), "plait_buffer_bytes", "buffer", "has been destroyed");
}

/* Processes of the host can read each other's ordinary memory, or are told that they can't. */
void attached_memory(void) {
  plait_buffer buffer = NULL;
  void* pointer = NULL;
  size_t bytes = 0, i;
  float* x;
  float* const memory = malloc((count + 4) * sizeof *x);
  plait_status status;
  CHECK(memory != NULL);
  x = memory + (16 - (size_t)memory % 16) % 16 / sizeof *x;
  INVALID(plait_buffer_attach(comm, (char*)x + 4, 64, &buffer), "attach: rank 0",
          "not aligned to 16 bytes");
  INVALID(plait_buffer_attach(comm, NULL, 64, &buffer), "attach: rank 0", "null");
  INVALID(plait_buffer_attach(comm, x, 64, NULL), "plait_buffer_attach", "buffer is NULL");
  status = plait_buffer_attach(comm, x, count * sizeof *x, &buffer);
  if (status == PLAIT_ERROR_UNSUPPORTED) {
    free(memory);
    return;
  }
  CHECK(status == PLAIT_SUCCESS);
  OK(plait_buffer_pointer(buffer, &pointer));
  OK(plait_buffer_bytes(buffer, &bytes));
  CHECK(pointer == x && bytes == count * sizeof *x);
  for (i = 0; i < count; ++i) x[i] = (float)value(rank, 2, i);
  OK(plait_all_reduce(comm, x, x, count, PLAIT_F32, PLAIT_SUM, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count; ++i)
    if (x[i] != (float)sum(2, i)) break;
  CHECK(i == count);
  OK(plait_buffer_detach(buffer));
  INVALID(plait_buffer_detach(buffer), "plait_buffer_detach", "buffer", "has been destroyed");
  OK(plait_buffer_allocate(comm, 64, &buffer));
  INVALID(plait_buffer_detach(buffer), "detach: rank 0", "not attached");
  INVALID(plait_buffer_peer(buffer, ranks, &pointer), "there is no rank");
  INVALID(plait_buffer_peer(buffer, 0, NULL), "pointer is NULL");
  OK(plait_buffer_pointer(buffer, &pointer));
  *(double*)pointer = value(rank, 3, 0);
  OK(plait_barrier(comm, stream));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < (size_t)ranks; ++i) {
    OK(plait_buffer_peer(buffer, (int)i, &pointer));
    CHECK(*(double*)pointer == value((int)i, 3, 0));
  }
  OK(plait_barrier(comm, stream));
  OK(plait_buffer_free(buffer));
  free(memory);
}

void groups_with_errors(void) {
  float x[4] = {1, 2, 3, 4};
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  INVALID(plait_group_end(), "group_end", "no group");
  OK(plait_statistics_of(comm, &before));
  /* The interface refuses one call, the communicator another: in both cases nothing of the group is
   * enqueued. */
  OK(plait_group_start());
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_all_reduce(comm, x, x, 2, (plait_data_type)99, PLAIT_SUM, stream, NULL),
          "plait_all_reduce: rank", "99", "type");
  INVALID(plait_group_end(), "call 2", "99 is no data type", "nothing of the group was enqueued");
  OK(plait_group_start());
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_refuse("elsewhere: no"), "elsewhere: no");
  INVALID(plait_refuse(NULL), "plait_refuse", "sentence is NULL");
  INVALID(plait_group_end(), "call 2", "elsewhere: no", "nothing of the group was enqueued");
  OK(plait_group_start());
  OK(plait_all_reduce(comm, NULL, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_barrier(NULL, stream), "plait_barrier", "NULL");
  INVALID(plait_group_end(), "call 1", "send is null", "nothing of the group was enqueued");
  OK(plait_synchronize(comm, stream));
  CHECK(x[0] == 1 && x[1] == 2);
  OK(plait_statistics_of(comm, &after));
  CHECK(after.calls == before.calls && after.launches == before.launches);
}
