/* The state of this rank, its failures, the table of the collectives, and the data it sends. */
#include "checks.h"

int rank, ranks, failures, turn;
plait_comm comm;
plait_stream_t stream;

void report(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: rank %d: %s (last error: %s)\n", file, line, rank, what,
          plait_last_error());
  ++failures;
}

const struct row table[rows] = {
#define ENTRY(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) {PLAIT_##ENUMERATOR, #NAME, OP, SEND, RECV},
    PLAIT_COLLECTIVES(ENTRY, PLAIT_NO_OTHER)
#undef ENTRY
};

int has(enum buffer buffer, int root) {
  return rank == root || (buffer != root_block && buffer != root_blocks);
}

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

double value(int of, int block, size_t i) {
  uint64_t hash = (uint64_t)i + 1000003 * ((uint64_t)of + 101 * ((uint64_t)block + 31 * turn));
  hash = (hash ^ (hash >> 31)) * 0x9e3779b97f4a7c15u;
  hash = (hash ^ (hash >> 27)) * 0xbf58476d1ce4e5b9u;
  return (double)((hash ^ (hash >> 33)) % 61);
}

double sum_of_first(int terms, int block, size_t i) {
  double total = 0;
  int r;
  for (r = 0; r < terms; ++r) total += value(r, block, i);
  return total;
}
double sum(int block, size_t i) { return sum_of_first(ranks, block, i); }

double expected_of(const struct row* row, int root, int b, size_t i) {
  const int many_sent = row->send == blocks || row->send == root_blocks,
            many_received = row->recv == blocks || row->recv == root_blocks;
  const int own = many_sent ? rank : 0; /* the block of `send` that is for this rank */
  if (!has(row->recv, root) || (b != 0 && !many_received)) return -1;
  if (row->number == PLAIT_SCAN) return sum_of_first(rank + 1, own, i);
  if (row->number == PLAIT_EXSCAN) return rank == 0 ? -1 : sum_of_first(rank, own, i);
  return row->op ? sum(own, i) : value(many_received ? b : root, own, i);
}
