/* The results of each collective of the C interface. */
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

const struct row table[rows] = {
#define ENTRY(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) {PLAIT_##ENUMERATOR, #NAME, OP, SEND, RECV},
    PLAIT_COLLECTIVES(ENTRY, PLAIT_NO_OTHER)
#undef ENTRY
};

plait_status by_name(plait_collective which, plait_comm on, const void* send, void* recv,
                     size_t elements, plait_data_type type, plait_reduce_op operation, int root,
                     const plait_call_options* options) {
  switch (which) {
#define CALL(NAME, ENUMERATOR, OP, ROOT, SEND, RECV)    \
  case PLAIT_##ENUMERATOR:                              \
    return plait_##NAME(on, send, recv, elements, type, \
                        PLAIT_IF_##OP(operation, ) PLAIT_IF_##ROOT(root, ) stream, options);
    PLAIT_COLLECTIVES(CALL, PLAIT_NO_OTHER)
#undef CALL
    default:
      return PLAIT_ERROR_INTERNAL;
  }
}

/* The reduction of blocks with a count per rank: without elements for some, and equal ones. */
void uneven_reductions(void) {
  enum { rounds = 4, equal = 3, longest = 700 };
  size_t* counts = malloc(((size_t)ranks + 1) * sizeof *counts);
  double* send = malloc((size_t)ranks * longest * sizeof *send);
  double* recv = malloc(((size_t)ranks * longest + 1) * sizeof *recv);
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  int round, in_place, b;
  for (round = 0; round < rounds; ++round)
    for (in_place = 0; in_place < 2; ++in_place) {
      size_t end = 0, first = 0, i;
      double* to;
      plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
      options.algorithm = in_place ? "direct_push" : NULL;
      for (b = 0; b < ranks; ++b) {
        counts[b] = round == equal ? 7 : (size_t)((2 * b + round + 1) % 3) * (longest / 2);
        if (b < rank) first += counts[b];
        end += counts[b];
      }
      for (i = 0; i < end; ++i) send[i] = value(rank, round, i);
      for (i = 0; i <= counts[rank]; ++i) recv[i] = -1;
      to = in_place ? send + first : recv;
      OK(plait_reduce_scatter_v(comm, send, counts, to, PLAIT_F64, PLAIT_SUM, stream, &options));
      memset(counts, 0xff, (size_t)ranks * sizeof *counts); /* has been read */
      OK(plait_synchronize(comm, stream));
      for (b = 0; b < ranks; ++b)
        counts[b] = round == equal ? 7 : (size_t)((2 * b + round + 1) % 3) * (longest / 2);
      for (i = 0; i < counts[rank] && to[i] == sum(round, first + i); ++i) continue;
      CHECK(i == counts[rank]);
      CHECK(in_place || recv[i] == -1); /* nothing behind the block */
      for (i = 0; i < end; ++i) {
        if (in_place && i >= first && i < first + counts[rank]) continue;
        if (send[i] != value(rank, round, i)) break;
      }
      CHECK(i == end); /* the other blocks */
    }

  OK(plait_statistics_of(comm, &before));
  for (b = 0; b < ranks; ++b) counts[b] = 1;
  counts[0] = 2;
  INVALID(plait_reduce_scatter_v(comm, send, NULL, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "plait_reduce_scatter_v: rank", "counts is NULL", "");
  INVALID(plait_reduce_scatter_v(comm, NULL, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          ranks == 1 ? "reduce_scatter: rank" : "reduce: rank", "send is null", "");
  INVALID(plait_reduce_scatter_v(comm, send, counts, NULL, PLAIT_F64, PLAIT_SUM, stream, NULL),
          ranks == 1 ? "reduce_scatter: rank" : "reduce: rank", "recv is null", "");
  counts[ranks - 1] = (size_t)-1;
  INVALID(plait_reduce_scatter_v(comm, send, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "reduce_scatter_v: rank", "the counts of f64 overflow", "");
  OK(plait_group_start());
  INVALID(plait_reduce_scatter_v(comm, send, NULL, recv, PLAIT_F64, PLAIT_SUM, stream, NULL),
          "counts is NULL", "", "");
  INVALID(plait_group_end(), "counts is NULL", "nothing of the group was enqueued", "");
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
    const int row = which == scaled ? PLAIT_ALL_REDUCE : which == as_data ? PLAIT_BROADCAST : which;
    const enum buffer from = table[row].send, to = table[row].recv;
    const int sends = rank == root || (from != root_block && from != root_blocks),
              receives = rank == root || (to != root_block && to != root_blocks),
              many_sent = from == blocks || from == root_blocks,
              many_received = to == blocks || to == root_blocks;
    CHECK(which < rows || (int)table[row].number == row);
    for (b = 0; b < ranks; ++b)
      for (i = 0; i < count; ++i)
        send[(size_t)b * count + i] = value(rank, b, i), recv[(size_t)b * count + i] = -1;
    if (which == scaled)
      OK(plait_all_reduce(comm, send, recv, count, PLAIT_F64, PLAIT_PREMUL_SUM, stream, &options));
    else if (which == as_data) OK(plait_enqueue(comm, &call, send, recv, stream, NULL));
    else
      OK(by_name(table[row].number, comm, sends ? send : NULL, receives ? recv : NULL, count,
                 PLAIT_F64, PLAIT_SUM, root, NULL));
    OK(plait_synchronize(comm, stream));
    for (b = 0; b < ranks; ++b)
      for (i = 0; i < count; ++i) {
        const int own = many_sent ? rank : 0; /* the block of `send` that is for this rank */
        double expected = -1;                 /* not touched */
        if (receives && (b == 0 || many_received))
          expected = table[row].op ? sum(own, i) : value(many_received ? b : root, own, i);
        if (b == 0 && table[row].number == PLAIT_SCAN) expected = sum_of_first(rank + 1, own, i);
        if (b == 0 && table[row].number == PLAIT_EXSCAN)
          expected = rank == 0 ? -1 : sum_of_first(rank, own, i);
        if (b == 0 && which == scaled) expected *= 2;
        if (recv[(size_t)b * count + i] != expected) {
          fprintf(stderr, "%s, block %d, element %lu: %g, not %g\n", table[row].name, b,
                  (unsigned long)i, recv[(size_t)b * count + i], expected);
          report(__FILE__, __LINE__, "a wrong element");
          b = ranks;
          break;
        }
      }
  }
  OK(plait_copy(comm, recv, send, count * sizeof *send, stream));
  OK(plait_synchronize(comm, stream));
  CHECK(memcmp(recv, send, count * sizeof *send) == 0);
  OK(plait_copy(comm, NULL, NULL, 0, stream));
  free(send);
  free(recv);
}
