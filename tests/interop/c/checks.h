/* Shared by the tests of the C interface: this rank's number, its failures, the table of the
 * collectives, and the data that ranks send. */
#ifndef PLAIT_TESTS_INTEROP_C_CHECKS_H
#define PLAIT_TESTS_INTEROP_C_CHECKS_H
#include <stdio.h>

#include "plait/collective_table.h"
#include "plait/plait.h"

extern int rank, ranks, failures;
extern plait_comm comm;
extern plait_stream_t stream;

void report(const char* file, int line, const char* what);
#define CHECK(condition) ((condition) ? (void)0 : report(__FILE__, __LINE__, #condition))
#define OK(call) CHECK((call) == PLAIT_SUCCESS)

/* The rows of the table, in its order. */
enum {
#define ENTRY(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) row_##NAME,
  PLAIT_COLLECTIVES(ENTRY, PLAIT_NO_OTHER)
#undef ENTRY
      rows
};
/* The buffer that a rank sends or receives: `block` or `blocks`, `root_` on the root alone. */
enum buffer { block, blocks, root_block, root_blocks };
struct row {
  plait_collective number;
  const char* name;
  enum { no_op, op } op;
  enum buffer send, recv;
};
extern const struct row table[rows];
int has(enum buffer buffer, int root); /* this rank */

/* A collective by its own function. */
plait_status by_name(plait_collective which, plait_comm on, const void* send, void* recv,
                     size_t elements, plait_data_type type, plait_reduce_op operation, int root,
                     const plait_call_options* options);

/* The element at `i` of block `block` of rank `of`: small integers, whose sums are exact. Others in
 * each `turn`, which all ranks count alike. */
extern int turn;
double value(int of, int block, size_t i);
double sum(int block, size_t i);
/* Of the first ranks only. */
double sum_of_first(int terms, int block, size_t i);
/* What a collective writes to `i` of block `block` of this rank's `recv`: a sum if it reduces, -1
 * for nothing. */
double expected_of(const struct row* row, int root, int block, size_t i);

#endif
