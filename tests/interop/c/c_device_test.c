/* The collectives and messages of Plait's C interface on whichever target PLAIT_BACKEND names, with
 * a GPU's memory where it is one: mpirun -n N c_device_test. Data goes to and from the device by
 * plait_copy alone, so the program needs no GPU runtime. */
#include <stdlib.h>
#include <string.h>

#include "checks.h"

enum { most = 100003 };

/* Two buffers on the device, and two here. */
static double *send, *recv, *here, *expected;

static void fill(size_t count) {
  const size_t all = (size_t)ranks * count;
  size_t i;
  int b;
  ++turn;
  for (b = 0; b < ranks; ++b)
    for (i = 0; i < count; ++i) here[(size_t)b * count + i] = value(rank, b, i);
  OK(plait_copy(comm, send, here, all * sizeof *here, stream));
  OK(plait_synchronize(comm, stream)); /* `here` is written next */
  for (i = 0; i < all; ++i) here[i] = expected[i] = -1;
  OK(plait_copy(comm, recv, here, all * sizeof *here, stream));
}

/* Whether `recv` is what is expected of it, beyond what the call was to write too. */
static void compare(int line, const char* what, size_t count) {
  const size_t all = (size_t)ranks * count;
  size_t i;
  OK(plait_copy(comm, here, recv, all * sizeof *here, stream));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < all && here[i] == expected[i]; ++i) continue;
  if (i == all) return;
  fprintf(stderr, "rank %d: %s of %lu: element %lu is %g, not %g\n", rank, what,
          (unsigned long)count, (unsigned long)i, here[i], expected[i]);
  report("c_device_test.c", line, what);
}

static void collectives(size_t count) {
  const int root = ranks - 1;
  size_t i;
  int which, b;
  for (which = 0; which < rows; ++which) {
    const struct row* row = &table[which];
    fill(count);
    for (b = 0; b < ranks; ++b)
      for (i = 0; i < count; ++i) expected[(size_t)b * count + i] = expected_of(row, root, b, i);
    OK(by_name(row->number, comm, has(row->send, root) ? send : NULL,
               has(row->recv, root) ? recv : NULL, count, PLAIT_F64, PLAIT_SUM, root, NULL));
    compare(__LINE__, row->name, count);
  }
}

/* Messages in a ring: together, one by one in a group, straight into symmetric memory; and blocks
 * of all lengths. */
static void messages(size_t count) {
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  size_t* layout = calloc(4 * (size_t)ranks, sizeof *layout);
  size_t *send_counts = layout, *send_at = layout + ranks, *recv_counts = layout + 2 * ranks,
         *recv_at = layout + 3 * ranks;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  size_t i;
  int way, b;
  for (way = 0; way < 3; ++way) {
    fill(count);
    for (i = 0; i < count; ++i) expected[i] = value(before, 0, i);
    if (way == 1) {
      OK(plait_group_start());
      OK(plait_send(comm, send, count, PLAIT_F64, next, stream, NULL));
      OK(plait_recv(comm, recv, count, PLAIT_F64, before, stream, NULL));
      OK(plait_group_end());
    } else {
      options.symmetric = way == 2;
      OK(plait_send_recv(comm, send, count, next, recv, count, before, PLAIT_F64, stream,
                         &options));
    }
    compare(__LINE__, "send_recv", count);
  }

  fill(count);
  for (b = 0; b < ranks; ++b) { /* nothing, a half or a whole block from a to b */
    send_counts[b] = count * (size_t)((rank + 2 * b) % 3) / 2;
    recv_counts[b] = count * (size_t)((b + 2 * rank) % 3) / 2;
    send_at[b] = (size_t)b * count;
    recv_at[b] = (size_t)(ranks - 1 - b) * count; /* against the order of ranks */
    for (i = 0; i < recv_counts[b]; ++i) expected[recv_at[b] + i] = value(b, rank, i);
  }
  OK(plait_all_to_all_v(comm, send, send_counts, send_at, recv, recv_counts, recv_at, PLAIT_F64,
                        stream, NULL));
  memset(layout, 0xff, 4 * (size_t)ranks * sizeof *layout); /* has been read */
  compare(__LINE__, "all_to_all_v", count);
  free(layout);
}

/* Reductions into blocks of `counts[r]` elements. Overwrites `counts`. */
static void reductions(size_t count, size_t* counts) {
  const size_t half = count / 2, own = counts[rank];
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  size_t i, begin = 0;
  int b;
  for (b = 0; b < rank; ++b) begin += counts[b];

  fill(count);
  for (i = 0; i < own; ++i) expected[i] = sum((int)((begin + i) / count), (begin + i) % count);
  OK(plait_reduce_scatter_v(comm, send, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL));
  compare(__LINE__, "reduce_scatter_v", count);

  /* In place, in `recv`: the other blocks are unchanged. */
  fill(count);
  OK(plait_copy(comm, recv, send, (size_t)ranks * count * sizeof *send, stream));
  for (i = 0; i < (size_t)ranks * count; ++i) {
    const int of = (int)(i / count);
    const int is_mine = i >= begin && i < begin + own;
    expected[i] = is_mine ? sum(of, i % count) : value(rank, of, i % count);
  }
  options.algorithm = "direct_push";
  OK(plait_reduce_scatter_v(comm, recv, counts, recv + begin, PLAIT_F64, PLAIT_SUM, stream,
                            &options));
  compare(__LINE__, "reduce_scatter_v in place", count);

  /* Equal counts, which are read before the call returns. */
  fill(count);
  for (b = 0; b < ranks; ++b) counts[b] = half;
  for (i = 0; i < half; ++i) {
    const size_t at_all = (size_t)rank * half + i;
    expected[i] = sum((int)(at_all / count), at_all % count);
  }
  OK(plait_reduce_scatter_v(comm, send, counts, recv, PLAIT_F64, PLAIT_SUM, stream, NULL));
  memset(counts, 0xff, (size_t)ranks * sizeof *counts);
  compare(__LINE__, "reduce_scatter_v of equal blocks", count);
}

/* Blocks of nothing, a half and a whole `count`, in turns over the ranks. */
static void counts_per_rank(size_t count) {
  const int root = ranks - 1, is_root = rank == root;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const int to[2] = {next, before}, from[2] = {before, next};
  const size_t half = count / 2;
  const size_t halves[2] = {half, half}, parts_at[2] = {0, half};
  size_t* counts = calloc(2 * (size_t)ranks, sizeof *counts);
  size_t *at = counts + ranks, i, own;
  int b;
  for (b = 0; b < ranks; ++b) {
    counts[b] = count * (size_t)((b + 1) % 3) / 2;
    at[b] = (size_t)b * count;
  }
  own = counts[rank];

  fill(count);
  for (b = 0; b < ranks; ++b)
    for (i = 0; i < counts[b]; ++i) expected[at[b] + i] = value(b, 0, i);
  OK(plait_all_gather_v(comm, send, own, recv, counts, at, PLAIT_F64, stream, NULL));
  compare(__LINE__, "all_gather_v", count);

  /* In place, from this rank's block of `recv`. */
  fill(count);
  for (b = 0; b < ranks; ++b)
    for (i = 0; i < counts[b]; ++i) expected[at[b] + i] = value(b, 0, i);
  OK(plait_copy(comm, recv + at[rank], send, own * sizeof *send, stream));
  OK(plait_all_gather_v(comm, recv + at[rank], own, recv, counts, at, PLAIT_F64, stream, NULL));
  compare(__LINE__, "all_gather_v in place", count);

  fill(count);
  for (b = 0; is_root && b < ranks; ++b)
    for (i = 0; i < counts[b]; ++i) expected[at[b] + i] = value(b, 0, i);
  OK(plait_gather_v(comm, send, own, is_root ? recv : NULL, is_root ? counts : NULL,
                    is_root ? at : NULL, PLAIT_F64, root, stream, NULL));
  compare(__LINE__, "gather_v", count);

  fill(count);
  for (i = 0; i < own; ++i) expected[i] = value(root, rank, i);
  OK(plait_scatter_v(comm, is_root ? send : NULL, is_root ? counts : NULL, is_root ? at : NULL,
                     recv, own, PLAIT_F64, root, stream, NULL));
  compare(__LINE__, "scatter_v", count);

  reductions(count, counts);

  fill(count);
  for (i = 0; i < half; ++i) {
    expected[i] = value(before, 0, i);
    expected[half + i] = value(next, 0, half + i);
  }
  OK(plait_neighbor_all_to_all_v(comm, send, 2, to, halves, parts_at, recv, 2, from, halves,
                                 parts_at, PLAIT_F64, stream, NULL));
  compare(__LINE__, "neighbor_all_to_all_v", count);
  free(counts);
}

/* Two doubles as one element. */
static void complex_numbers(size_t count) {
  size_t i;
  fill(count);
  for (i = 0; i < count / 2 * 2; ++i) expected[i] = sum(0, i);
  OK(plait_all_reduce(comm, send, recv, count / 2, PLAIT_COMPLEX_F64, PLAIT_SUM, stream, NULL));
  compare(__LINE__, "all_reduce of complex numbers", count);

  fill(count);
  for (i = 0; i < count / 2 * 2; ++i) expected[i] = sum_of_first(rank + 1, 0, i);
  OK(plait_scan(comm, send, recv, count / 2, PLAIT_COMPLEX_F64, PLAIT_SUM, stream, NULL));
  compare(__LINE__, "scan of complex numbers", count);
}

/* The place of the least and of the greatest number, as MPI_DOUBLE_INT has it. */
static void places(void) {
  struct {
    double x;
    int at;
  } pairs[100], got[100];
  size_t i;
  int turn;
  for (turn = 0; turn < 2; ++turn) {
    for (i = 0; i < 100; ++i) {
      pairs[i].x = value(rank, 0, i);
      pairs[i].at = rank;
    }
    OK(plait_copy(comm, send, pairs, sizeof pairs, stream));
    OK(plait_all_reduce(comm, send, recv, 100, PLAIT_F64_I32, turn ? PLAIT_MAXLOC : PLAIT_MINLOC,
                        stream, NULL));
    OK(plait_copy(comm, got, recv, sizeof got, stream));
    OK(plait_synchronize(comm, stream));
    for (i = 0; i < 100; ++i) {
      int best = 0, r;
      for (r = 1; r < ranks; ++r)
        if (turn ? value(r, 0, i) > value(best, 0, i) : value(r, 0, i) < value(best, 0, i))
          best = r;
      CHECK(got[i].at == best && got[i].x == value(best, 0, i));
    }
  }
}

int main(void) {
  static const size_t counts[] = {1, 1003, most};
  char text[256];
  plait_buffer buffers[2] = {NULL, NULL};
  void* pointer;
  size_t bytes, i;
  if (plait_comm_create_world(NULL, &comm) != PLAIT_SUCCESS) {
    fprintf(stderr, "c_device_test: %s\n", plait_last_error());
    return 1;
  }
  OK(plait_comm_rank(comm, &rank));
  OK(plait_comm_size(comm, &ranks));
  OK(plait_comm_describe(comm, text, sizeof text, NULL));
  if (rank == 0) puts(text);
  OK(plait_stream_create(comm, &stream));
  bytes = (size_t)ranks * most * sizeof(double);
  for (i = 0; i < 2; ++i) {
    pointer = NULL;
    OK(plait_buffer_allocate(comm, bytes, &buffers[i]));
    OK(plait_buffer_pointer(buffers[i], &pointer));
    *(i == 0 ? &send : &recv) = pointer;
  }
  here = malloc(bytes);
  expected = malloc(bytes);
  for (i = 0; i < sizeof counts / sizeof *counts; ++i) {
    collectives(counts[i]);
    messages(counts[i]);
    counts_per_rank(counts[i]);
    complex_numbers(counts[i]);
    OK(plait_barrier(comm, stream));
  }
  places();
  OK(plait_synchronize(comm, stream));
  free(here);
  free(expected);
  for (i = 0; i < 2; ++i) OK(plait_buffer_free(buffers[i]));
  OK(plait_stream_destroy(stream));
  OK(plait_comm_destroy(comm));
  printf("rank %d: %s\n", rank, failures == 0 ? "passed" : "FAILED");
  return failures != 0;
}
