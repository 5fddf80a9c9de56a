/* Failures in the C interface: a deadline, an abort, and the last error of each thread. */
#include <pthread.h>
#include <string.h>

#include "c_test.h"

/* The last rank comes too late. */
void deadline(void) {
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm hasty = NULL;
  plait_status status = PLAIT_SUCCESS;
  if (ranks == 1) return;
  config.backend = PLAIT_BACKEND_HOST;
  config.timeout_seconds = 0.5;
  OK(plait_comm_create_world(&config, &hasty));
  if (rank != ranks - 1) {
    OK(plait_barrier(hasty, stream));
    CHECK(plait_synchronize(hasty, stream) == PLAIT_ERROR_TIMEOUT &&
          strstr(plait_last_error(), "waited 0.5 s") != NULL);
  } else {
    do OK(plait_async_error(hasty, &status)); /* the others' */
    while (status == PLAIT_SUCCESS);
    CHECK(status == PLAIT_ERROR_TIMEOUT);
  }
  OK(plait_comm_destroy(hasty));
}

static void* on_a_thread(void* seen) {
  plait_status status;
  int* result = seen;
  *result = plait_last_error()[0] == '\0'; /* the main thread's errors are its own */
  *result &= plait_group_end() == PLAIT_ERROR_INVALID_ARGUMENT &&
             strstr(plait_last_error(), "group_end") != NULL;
  *result &= plait_async_error(comm, &status) == PLAIT_SUCCESS && status == PLAIT_SUCCESS;
  *result &= strstr(plait_last_error(), "group_end") != NULL; /* what succeeds leaves it */
  return NULL;
}

void threads(void) {
  pthread_t thread;
  int good = 0;
  INVALID(plait_comm_rank(NULL, &good), "plait_comm_rank", "NULL");
  CHECK(pthread_create(&thread, NULL, on_a_thread, &good) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(good);
  CHECK(strstr(plait_last_error(), "plait_comm_rank") != NULL);
}

/* The last rank aborts; the others, which wait for it, get its number and the reason. */
static void* abort_it(void* of) { return plait_abort(of, "enough") == PLAIT_SUCCESS ? of : NULL; }
void aborting(void) {
  plait_comm copy = NULL;
  plait_status status = PLAIT_SUCCESS;
  pthread_t thread;
  void* returned = NULL;
  float x[4] = {0};
  char by[40];
  OK(plait_comm_duplicate(comm, &copy));
  sprintf(by, "rank %d", ranks - 1);
  if (rank == ranks - 1) {
    CHECK(pthread_create(&thread, NULL, abort_it, copy) == 0);
    CHECK(pthread_join(thread, &returned) == 0 && returned == copy);
  } else {
    const plait_status enqueued =
        plait_all_reduce(copy, x, x, 4, PLAIT_F32, PLAIT_SUM, stream, NULL);
    CHECK(enqueued == PLAIT_SUCCESS || enqueued == PLAIT_ERROR_ABORTED);
  }
  REFUSED(PLAIT_ERROR_ABORTED, plait_synchronize(copy, stream), by, "aborted", "enough");
  OK(plait_async_error(copy, &status));
  CHECK(status == PLAIT_ERROR_ABORTED && strstr(plait_last_error(), "enough"));
  OK(plait_comm_destroy(copy));
}

/* A thread of rank 0 is stuck in a call that no other rank makes. Only an abort ends that. */
static void* wait_in_vain(void* of) {
  return plait_synchronize(of, stream) == PLAIT_ERROR_ABORTED ? of : NULL;
}
void destroying(void) {
  plait_comm copy = NULL;
  plait_status status = PLAIT_SUCCESS;
  pthread_t thread;
  void* returned = NULL;
  int answer = 0;
  if (ranks == 1) return;
  OK(plait_comm_duplicate(comm, &copy));
  if (rank != 0) {
    do OK(plait_async_error(copy, &status)); /* rank 0's */
    while (status == PLAIT_SUCCESS);
  } else {
    OK(plait_barrier(copy, stream));
    CHECK(pthread_create(&thread, NULL, wait_in_vain, copy) == 0);
    while (plait_is_symmetric(copy, &answer, 1, &answer) == PLAIT_SUCCESS) continue;
    INVALID(plait_comm_destroy(copy), "plait_comm_destroy", "another thread is inside");
    OK(plait_abort(copy, "enough"));
    CHECK(pthread_join(thread, &returned) == 0 && returned == copy);
  }
  OK(plait_comm_destroy(copy));
}

/* What one rank calls on `on` in the place of a sum, and a word of the reason. */
enum { ways_to_be_refused = 5 };
static const char* refused_on(plait_comm on, int way) {
  float x[4] = {0}, y[4];
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  switch (way) {
    case 0:
      INVALID(plait_all_reduce(on, NULL, x, 4, PLAIT_F32, PLAIT_SUM, stream, NULL), "all_reduce",
              "send is null");
      return "send is null";
    case 1:
      INVALID(plait_all_reduce(on, x, y, 4, (plait_data_type)99, PLAIT_SUM, stream, NULL),
              "plait_all_reduce", "no data type");
      return "no data type";
    case 2:
      options.size = 1;
      INVALID(plait_all_reduce(on, x, y, 4, PLAIT_F32, PLAIT_SUM, stream, &options),
              "plait_all_reduce", "has size 1");
      return "has size 1";
    case 3:
      OK(plait_group_start());
      OK(plait_all_reduce(on, x, y, 4, PLAIT_F32, PLAIT_SUM, stream, NULL));
      INVALID(plait_broadcast(on, x, x, 4, (plait_data_type)99, 0, stream, NULL), "plait_broadcast",
              "no data type");
      INVALID(plait_group_end(), "group: call 2", "no data type");
      return "no data type";
    default:
      INVALID(plait_refuse_call(on, PLAIT_ALL_REDUCE, NULL, 0, NULL, 0, "a binding: no"),
              "a binding: no");
      return "a binding: no";
  }
}

/* The last rank's third call is refused, and it goes on: all hear of it, and no sum is wrong. */
void refusing(void) {
  if (ranks == 1) return;
  for (int way = 0; way < ways_to_be_refused; ++way) {
    plait_comm copy = NULL;
    plait_status status = PLAIT_SUCCESS;
    const char* why = "";
    OK(plait_comm_duplicate(comm, &copy));
    for (int call = 1; call < 40 && status == PLAIT_SUCCESS; ++call) {
      float x[4], y[4];
      if (call == 3 && rank == ranks - 1) {
        why = refused_on(copy, way);
        continue;
      }
      for (int i = 0; i < 4; ++i) x[i] = (float)(call * (7 * rank + 3 * i + 1));
      status = plait_all_reduce(copy, x, y, 4, PLAIT_F32, PLAIT_SUM, stream, NULL);
      if (status == PLAIT_SUCCESS) status = plait_synchronize(copy, stream);
      for (int i = 0; i < 4 && status == PLAIT_SUCCESS; ++i)
        CHECK(y[i] == (float)(call * (7 * ranks * (ranks - 1) / 2 + ranks * (3 * i + 1))));
    }
    CHECK(status == PLAIT_ERROR_MISMATCH &&
          strstr(plait_last_error(), "call 3 was refused: ") != NULL &&
          strstr(plait_last_error(), why) != NULL);
    OK(plait_comm_destroy(copy));
  }
}
