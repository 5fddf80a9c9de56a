/* The results of each collective of the C interface. */
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

/* Each collective in f64, from ordinary memory, with a buffer of n blocks. */
void collectives(void) {
  const size_t all = (size_t)ranks * count;
  double* send = malloc(all * sizeof *send);
  double* recv = malloc(all * sizeof *recv);
  const int root = ranks - 1;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  plait_call call = PLAIT_CALL_INIT;
  size_t i;
  int b, which;
  enum { scaled = rows, as_data, ways };
  options.algorithm = "ring";
  options.scale = 2;
  call.collective = PLAIT_BROADCAST;
  call.type = PLAIT_F64;
  call.count = count;
  call.root = root;
  for (which = 0; which < ways; ++which) {
    const int at = which == scaled ? row_all_reduce : which == as_data ? row_broadcast : which;
    const struct row* row = &table[at];
    ++turn;
    for (b = 0; b < ranks; ++b)
      for (i = 0; i < count; ++i)
        send[(size_t)b * count + i] = value(rank, b, i), recv[(size_t)b * count + i] = -1;
    if (which == scaled)
      OK(plait_all_reduce(comm, send, recv, count, PLAIT_F64, PLAIT_PREMUL_SUM, stream, &options));
    else if (which == as_data) OK(plait_enqueue(comm, &call, send, recv, stream, NULL));
    else
      OK(by_name(row->number, comm, has(row->send, root) ? send : NULL,
                 has(row->recv, root) ? recv : NULL, count, PLAIT_F64, PLAIT_SUM, root, NULL));
    OK(plait_synchronize(comm, stream));
    for (b = 0; b < ranks; ++b)
      for (i = 0; i < count; ++i) {
        const double expected = expected_of(row, root, b, i) * (b == 0 && which == scaled ? 2 : 1);
        if (recv[(size_t)b * count + i] == expected) continue;
        fprintf(stderr, "%s, block %d, element %lu: %g, not %g\n", row->name, b, (unsigned long)i,
                recv[(size_t)b * count + i], expected);
        report(__FILE__, __LINE__, "a wrong element");
        b = ranks;
        break;
      }
  }
  OK(plait_copy(comm, recv, send, count * sizeof *send, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(memcmp(recv, send, count * sizeof *send) == 0);
  OK(plait_copy(comm, NULL, NULL, 0, stream));
  free(send);
  free(recv);
}
