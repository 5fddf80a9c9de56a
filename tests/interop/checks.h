/* Shared by the tests of the C interface: this rank's number, its failures, and the data it
 * sends. */
#ifndef PLAIT_TESTS_INTEROP_CHECKS_H
#define PLAIT_TESTS_INTEROP_CHECKS_H
#include <stdio.h>

#include "plait/plait.h"

static int rank, ranks, failures;
static plait_comm comm;
static plait_stream_t stream;

static void report(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: rank %d: %s (last error: %s)\n", file, line, rank, what,
          plait_last_error());
  ++failures;
}
#define CHECK(condition) ((condition) ? (void)0 : report(__FILE__, __LINE__, #condition))
#define OK(call) CHECK((call) == PLAIT_SUCCESS)

/* What `of` has at `i` of block `block`; small integers, whose sums are exact. */
static double value(int of, int block, size_t i) {
  return (double)((i * 7 + (size_t)of * 13 + (size_t)block * 5) % 61);
}
static double sum(int block, size_t i) {
  double total = 0;
  int r;
  for (r = 0; r < ranks; ++r) total += value(r, block, i);
  return total;
}

#endif
