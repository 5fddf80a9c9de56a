/* What the lines of a page name, and what they leave behind. The columns are compiled apart, and
 * each runs with equal values; the test compares what is there afterwards. */
#ifndef PLAIT_TESTS_PAGES_ROW_H
#define PLAIT_TESTS_PAGES_ROW_H
#include <mpi.h>
#include <stddef.h>

enum { ranks = 2, count_of_block = 6, elements = (ranks + 1) * count_of_block };

struct page_row {
  const char* name;
  int frees_a_part; /* then the lines find a `part` */
  MPI_Comm mpi;
  void* stream; /* of Plait's, in which another library's calls can be enqueued as well */
  int rank, size, root, left, right, color, key;
  int own_rank; /* `rank`, also where the row sets that */
  size_t n;
  double factor;
  double send[elements], recv[elements], x[elements];
  size_t send_counts[ranks], send_starts[ranks];
  size_t recv_counts[ranks], recv_starts[ranks];
  size_t counts[ranks], starts[ranks]; /* equal on all ranks */
  /* Of `comm` and of `part` after the lines; -1 if there is no part. */
  int comm_rank, comm_size, part_rank, part_size;
  /* The kind of error by which the communicator ended; empty if by none. */
  char error[64];
};

/* A row in one of the columns; the last has no name. */
struct row_function {
  const char* name;
  void (*run)(struct page_row* row);
};
extern const struct row_function left_column[], cpp_column[], c_column[];

#endif
