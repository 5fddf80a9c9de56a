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
  INVALID(plait_comm_rank(NULL, &good), "plait_comm_rank", "NULL", "");
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
    INVALID(plait_comm_destroy(copy), "plait_comm_destroy", "another thread is inside", "");
    OK(plait_abort(copy, "enough"));
    CHECK(pthread_join(thread, &returned) == 0 && returned == copy);
  }
  OK(plait_comm_destroy(copy));
}
