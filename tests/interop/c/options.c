/* Options of calls in the C interface, and questions about what the library chose and did. */
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

void questions(void) {
  plait_call call = PLAIT_CALL_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_status status = PLAIT_ERROR_INTERNAL;
  char text[4000];
  size_t length = 0, bytes = 0;
  call.count = 100;
  options.algorithm = "ring";
  OK(plait_chosen(comm, &call, &options, text, sizeof text, &length));
  CHECK(strcmp(text, "ring") == 0 && length == 4);
  OK(plait_chosen(comm, &call, NULL, text, sizeof text, &length));
  CHECK(length != 0 && strcmp(text, "ring") != 0);
  OK(plait_explain(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strstr(text, "all_reduce") && length > 20);
  call.collective = PLAIT_SEND_RECV;
  OK(plait_chosen(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strncmp(text, "pairwise", 8) == 0);
  call.collective = PLAIT_BARRIER;
  OK(plait_explain(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strncmp(text, "barrier", 7) == 0);
  OK(plait_progress_of(comm, &progress));
  CHECK(progress.blocks > 0 && progress.started == progress.completed &&
        progress.started >= progress.blocks);
  OK(plait_async_error(comm, &status));
  CHECK(status == PLAIT_SUCCESS);
  OK(plait_size_of(PLAIT_BF16, &bytes));
  CHECK(bytes == 2);
  CHECK(plait_version() == PLAIT_VERSION_NUMBER);
  CHECK(strcmp(plait_status_name(PLAIT_SUCCESS), "success") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_BOOTSTRAP), "bootstrap") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_INTERNAL), "internal") == 0);
  CHECK(strcmp(plait_status_name((plait_status)100), "invalid") == 0);
}

enum { blocks_wanted = 3, threads_wanted = 5, few = 40 };

static plait_call_options wanted_shape(void) {
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  options.blocks = blocks_wanted;
  options.threads = threads_wanted;
  return options;
}
static plait_call_options by_algorithm(const char* name) {
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  options.algorithm = name;
  return options;
}
static plait_call call_of_few(void) {
  plait_call call = PLAIT_CALL_INIT;
  call.type = PLAIT_F64;
  call.count = few;
  return call;
}

/* Each collective, messages, and a call as data. */
static void every_call(plait_comm fresh, double* send, double* recv) {
  enum { messages = rows, as_data, ways };
  const plait_call_options options = wanted_shape(), nonsense = by_algorithm("nonsense");
  const plait_call call = call_of_few();
  plait_progress progress = PLAIT_PROGRESS_INIT;
  int which, asked;
  for (which = 0; which < ways; ++which)
    for (asked = 0; asked < 2; ++asked) {
      const plait_call_options* with = asked == 0 ? &nonsense : &options;
      const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
      plait_progress then = PLAIT_PROGRESS_INIT, now = PLAIT_PROGRESS_INIT;
      plait_status status;
      OK(plait_progress_of(fresh, &then));
      if (which == messages)
        status =
            plait_send_recv(fresh, send, few, next, recv, few, before, PLAIT_F64, stream, with);
      else if (which == as_data) status = plait_enqueue(fresh, &call, send, recv, stream, with);
      else
        status =
            by_name(table[which].number, fresh, send, recv, few, PLAIT_F64, PLAIT_SUM, 0, with);
      if (asked == 0) {
        CHECK(status == PLAIT_ERROR_INVALID_ARGUMENT &&
              strstr(plait_last_error(), "\"nonsense\"") != NULL);
        continue;
      }
      CHECK(status == PLAIT_SUCCESS);
      OK(plait_synchronize(fresh, stream));
      OK(plait_progress_of(fresh, &now));
      if (ranks > 1 && (which == messages ? now.started == then.started /* as many as workers */
                                          : now.started - then.started != blocks_wanted)) {
        fprintf(stderr, "collective %d: %lu blocks\n", which,
                (unsigned long)(now.started - then.started));
        report(__FILE__, __LINE__, "not the blocks that were asked for");
      }
    }
  OK(plait_progress_of(fresh, &progress));
  CHECK(ranks == 1 || progress.blocks == blocks_wanted);
}

static void refused_options(plait_comm fresh, double* send, double* recv) {
  plait_call_options options = wanted_shape();
  const plait_call_options nonsense = by_algorithm("nonsense");
  const plait_call call = call_of_few();
  size_t* counts = calloc((size_t)ranks, sizeof *counts);
  char text[4000];
  INVALID(plait_all_to_all_v(fresh, send, counts, counts, recv, counts, counts, PLAIT_F64, stream,
                             &nonsense),
          "\"nonsense\"");
  if (ranks > 1)
    INVALID(plait_send(fresh, send, 1, PLAIT_F64, (rank + 1) % ranks, stream, &nonsense),
            "\"nonsense\"");
  if (ranks > 1)
    INVALID(plait_recv(fresh, recv, 1, PLAIT_F64, (rank + ranks - 1) % ranks, stream, &nonsense),
            "\"nonsense\"");

  OK(plait_explain(fresh, &call, &options, text, sizeof text, NULL));
  CHECK(ranks == 1 || strstr(text, "3 blocks of 5 threads") != NULL);
  options.threads = 1u << 20;
  INVALID(plait_all_reduce(fresh, send, recv, few, PLAIT_F64, PLAIT_SUM, stream, &options),
          "1048576", "threads");
  free(counts);
}

static void calls_as_data(plait_comm fresh, double* send, double* recv) {
  const plait_call_options direct_copy = by_algorithm("direct_copy");
  plait_call call = call_of_few();
  plait_buffer buffer = NULL;
  void* memory = NULL;
  char text[4000];

  /* The operation of a call as data. */
  call.op = PLAIT_MAX;
  send[0] = rank;
  OK(plait_enqueue(fresh, &call, send, recv, stream, NULL));
  OK(plait_synchronize(fresh, stream));
  CHECK(recv[0] == ranks - 1);

  /* Where its memory is: some algorithms want symmetric memory. */
  call.collective = PLAIT_ALL_GATHER;
  if (ranks > 1)
    REFUSED(PLAIT_ERROR_UNSUPPORTED,
            plait_chosen(fresh, &call, &direct_copy, text, sizeof text, NULL), "symmetric");
  call.symmetric = 1;
  OK(plait_chosen(fresh, &call, &direct_copy, text, sizeof text, NULL));
  CHECK(ranks == 1 || strcmp(text, "direct_copy") == 0);
  OK(plait_buffer_allocate(fresh, 2 * (size_t)ranks * few * sizeof *send, &buffer));
  OK(plait_buffer_pointer(buffer, &memory));
  call.symmetric = 0; /* `plait_enqueue` finds out by itself */
  OK(plait_enqueue(fresh, &call, memory, (double*)memory + (size_t)ranks * few, stream,
                   &direct_copy));
  OK(plait_synchronize(fresh, stream));
}

/* What the statistics count: the calls above, and then a group. */
static void statistics_of_calls(plait_comm fresh, double* send, double* recv) {
  const plait_call_options options = by_algorithm("oneshot_ll");
  plait_statistics statistics = PLAIT_STATISTICS_INIT;
  OK(plait_statistics_of(fresh, &statistics));
  CHECK(statistics.calls == rows + 4);
  CHECK(statistics.groups == 0);
  OK(plait_group_start());
  OK(plait_all_reduce(fresh, send, recv, few / 2, PLAIT_F64, PLAIT_SUM, stream, &options));
  OK(plait_all_reduce(fresh, send + few / 2, recv + few / 2, few / 2, PLAIT_F64, PLAIT_SUM, stream,
                      &options));
  OK(plait_group_end());
  OK(plait_synchronize(fresh, stream));
  OK(plait_statistics_of(fresh, &statistics));
  CHECK(statistics.groups == 1 && statistics.calls == rows + 6);
  CHECK(ranks == 1 || (statistics.batched == 2 && statistics.launches_in_arguments == 1 &&
                       statistics.items_in_arguments == 2));
}

/* On a communicator that starts to count at 0. */
void options_of_calls(void) {
  plait_comm fresh = NULL;
  double* send = calloc((size_t)ranks * few, sizeof *send);
  double* recv = calloc((size_t)ranks * few, sizeof *recv);
  OK(plait_comm_duplicate(comm, &fresh));
  every_call(fresh, send, recv);
  refused_options(fresh, send, recv);
  calls_as_data(fresh, send, recv);
  statistics_of_calls(fresh, send, recv);
  OK(plait_comm_destroy(fresh));
  free(send);
  free(recv);
}
