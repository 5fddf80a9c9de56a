/* The state of this rank, its failures, and the data it sends. */
#include "checks.h"

int rank, ranks, failures;
plait_comm comm;
plait_stream_t stream;

void report(const char* file, int line, const char* what) {
  fprintf(stderr, "%s:%d: rank %d: %s (last error: %s)\n", file, line, rank, what,
          plait_last_error());
  ++failures;
}

double value(int of, int block, size_t i) {
  return (double)((i * 7 + (size_t)of * 13 + (size_t)block * 5) % 61);
}

double sum_of_first(int terms, int block, size_t i) {
  double total = 0;
  int r;
  for (r = 0; r < terms; ++r) total += value(r, block, i);
  return total;
}
double sum(int block, size_t i) { return sum_of_first(ranks, block, i); }
