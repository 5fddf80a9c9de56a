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
