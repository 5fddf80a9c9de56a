/* Collectives of the C interface: arguments of uneven blocks, and results. */
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

/* Arguments of the reduction of blocks with a count per rank; c_device_test has its results. */
void uneven_reductions(void) {
  size_t* counts = malloc((size_t)ranks * sizeof *counts);
  double* send = calloc((size_t)ranks + 1, sizeof *send);
  double* recv = calloc(2, sizeof *recv);
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  int b;
  OK(plait_statistics_of(comm, &before));
  for (b = 0; b < ranks; ++b) counts[b] = 1;
  counts[0] = 2;
  INVALID(plait_reduce_scatter_v(comm, send, NULL, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "plait_reduce_scatter_v: rank", "counts is NULL");
  INVALID(plait_reduce_scatter_v(comm, NULL, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          ranks == 1 ? "reduce_scatter: rank" : "reduce: rank", "send is null");
  INVALID(plait_reduce_scatter_v(comm, send, counts, NULL, PLAIT_F64, PLAIT_SUM, stream, NULL),
          ranks == 1 ? "reduce_scatter: rank" : "reduce: rank", "recv is null");
  counts[ranks - 1] = (size_t)-1;
  INVALID(plait_reduce_scatter_v(comm, send, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "reduce_scatter_v: rank", "the counts of f64 overflow");
  OK(plait_group_start());
  INVALID(plait_reduce_scatter_v(comm, send, NULL, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "counts is NULL");
  INVALID(plait_group_end(), "counts is NULL", "nothing of the group was enqueued");
  OK(plait_statistics_of(comm, &after));
  CHECK(after.calls == before.calls);
  free(counts);
  free(send);
  free(recv);
}

/* Results from ordinary memory: a reduction with a scale, and a call as data. c_device_test and the
 * pages' tests have those of each collective. */
void collectives(void) {
  double *send = malloc(count * sizeof *send), *recv = malloc(count * sizeof *recv);
  const int root = ranks - 1;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  plait_call call = PLAIT_CALL_INIT;
  size_t i;
  int as_data;
  options.algorithm = "ring";
  options.scale = 2;
  call.collective = PLAIT_BROADCAST;
  call.type = PLAIT_F64;
  call.count = count;
  call.root = root;
  for (as_data = 0; as_data < 2; ++as_data) {
    ++turn;
    for (i = 0; i < count; ++i) send[i] = value(rank, 0, i), recv[i] = -1;
    if (as_data) OK(plait_enqueue(comm, &call, send, recv, stream, NULL));
    else
      OK(plait_all_reduce(comm, send, recv, count, PLAIT_F64, PLAIT_PREMUL_SUM, stream, &options));
    OK(plait_synchronize(comm, stream));
    for (i = 0; i < count && recv[i] == (as_data ? value(root, 0, i) : 2 * sum(0, i)); ++i)
      continue;
    CHECK(i == count);
  }
  OK(plait_copy(comm, recv, send, count * sizeof *send, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(memcmp(recv, send, count * sizeof *send) == 0);
  OK(plait_copy(comm, NULL, NULL, 0, stream));
  free(send);
  free(recv);
}
