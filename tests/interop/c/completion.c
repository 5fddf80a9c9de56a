/* The end of calls in the C interface: plait_test, plait_wait_any, calls that block, events. */
#include <string.h>

#include "c_test.h"

/* All but the last rank wait for it: it comes to the next call 20 ms later than they. */
static void come_late(void) {
  double begin;
  MPI_Barrier(MPI_COMM_WORLD);
  begin = MPI_Wtime();
  while (rank == ranks - 1 && MPI_Wtime() < begin + 0.02) continue;
}

static void polled(plait_stream_t on) {
  int done = -1;
  do CHECK(plait_test(comm, on, &done) == PLAIT_SUCCESS && (done == 0 || done == 1));
  while (done == 0);
}

static void waits(void) {
  const double begin = MPI_Wtime();
  plait_stream_t streams[2] = {NULL, NULL};
  plait_call call = PLAIT_CALL_INIT;
  size_t index = 7;
  int done = -1;
  double x;
  streams[1] = stream;
  call.type = PLAIT_F64;
  call.count = 1;

  come_late();
  x = 1;
  OK(plait_all_reduce(comm, &x, &x, 1, PLAIT_F64, PLAIT_SUM, stream, NULL));
  polled(stream);
  CHECK(x == ranks);
  OK(plait_test(comm, stream, &done));
  CHECK(done == 1);
  come_late();
  x = 1;
  OK(plait_enqueue(comm, &call, &x, &x, stream, NULL));
  OK(plait_wait_any(comm, &streams[1], 1, &index));
  CHECK(index == 0 && x == ranks);
  OK(plait_wait_any(comm, streams, 2, &index));
  CHECK(index == 0); /* nothing is on either */
  CHECK(MPI_Wtime() < begin + 60);

  index = 7, done = 7;
  INVALID(plait_wait_any(comm, streams, 0, &index), "wait_any: rank", "no streams");
  INVALID(plait_wait_any(comm, NULL, 2, &index), "plait_wait_any: rank", "streams is NULL");
  INVALID(plait_wait_any(comm, streams, 2, NULL), "plait_wait_any: rank", "index is NULL");
  INVALID(plait_test(comm, stream, NULL), "plait_test: rank", "done is NULL");
  CHECK(index == 7 && done == 7);
}

static void blocking(void) {
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  plait_call call = PLAIT_CALL_INIT;
  double x, y;
  int done = -1;
  options.blocking = 1;
  come_late();
  x = rank + 1;
  OK(plait_all_reduce(comm, &x, &y, 1, PLAIT_F64, PLAIT_SUM, stream, &options));
  CHECK(y == ranks * (ranks + 1) / 2);
  come_late();
  OK(plait_send_recv(comm, &x, 1, (rank + 1) % ranks, &y, 1, (rank + ranks - 1) % ranks, PLAIT_F64,
                     stream, &options));
  CHECK(y == (rank + ranks - 1) % ranks + 1);
  come_late();
  call.collective = PLAIT_BARRIER;
  OK(plait_enqueue(comm, &call, NULL, NULL, stream, &options));
  OK(plait_test(comm, stream, &done));
  CHECK(done == 1);

  OK(plait_group_start());
  OK(plait_all_reduce(comm, &x, &y, 1, PLAIT_F64, PLAIT_SUM, stream, &options));
  INVALID(plait_group_end(), "all_reduce: rank", "a blocking call in a group");
}

static void events(void) {
  plait_event_t event = NULL;
  int done = -1, number = 0;
  double x = 1;
  OK(plait_event_create(comm, &event));
  OK(plait_event_test(comm, event, &done));
  CHECK(done == 1); /* without a point */
  come_late();
  OK(plait_all_reduce(comm, &x, &x, 1, PLAIT_F64, PLAIT_SUM, stream, NULL));
  OK(plait_event_record(comm, event, stream));
  OK(plait_event_wait(comm, event, NULL));
  OK(plait_event_synchronize(comm, event));
  CHECK(x == ranks);
  OK(plait_event_test(comm, event, &done));
  CHECK(done == 1);
  OK(plait_synchronize(comm, NULL));

  done = 7;
  INVALID(plait_event_create(comm, NULL), "plait_event_create", "event is NULL");
  INVALID(plait_event_test(comm, event, NULL), "plait_event_test", "done is NULL");
  INVALID(plait_event_record(comm, NULL, stream), "the event is null");
  INVALID(plait_event_record(comm, &number, stream), "is no event");
  OK(plait_group_start());
  INVALID(plait_event_record(comm, event, stream), "a group is open");
  OK(plait_group_end());
  OK(plait_event_destroy(event));
  INVALID(plait_event_destroy(event), "plait_event_destroy", "is no event", "destroyed");
  INVALID(plait_event_wait(comm, event, stream), "is no event", "destroyed");
  INVALID(plait_event_test(comm, event, &done), "is no event", "destroyed");
  INVALID(plait_event_synchronize(comm, event), "is no event", "destroyed");
  CHECK(done == 7);
}

void completion(void) {
  waits();
  blocking();
  events();
}
