/* The column of C: each row's lines as a function. */
#include <stdio.h>
#include <string.h>

#include "c_top.inc"
#include "row.h"

/* What the lines name beside `comm`, which the page makes. */
static MPI_Comm mpi;
static plait_stream_t stream;
static int rank, size, root, left, right, color, key;
static size_t n, *send_counts, *send_starts, *recv_counts, *recv_starts;
static size_t *counts, *starts;
static double factor, *send, *recv, *x;
static plait_comm part;
static plait_buffer buffer;
static plait_status status;
static plait_unique_id id;
static plait_call_options options;

static char last_error[1000]; /* before the row */

static void begin_row(struct page_row* row) {
  const plait_call_options defaults = PLAIT_CALL_OPTIONS_INIT;
  mpi = row->mpi, stream = row->stream;
  rank = row->rank, size = row->size, root = row->root, left = row->left, right = row->right;
  color = row->color, key = row->key, n = row->n, factor = row->factor;
  send = row->send, recv = row->recv, x = row->x;
  send_counts = row->send_counts, send_starts = row->send_starts;
  recv_counts = row->recv_counts, recv_starts = row->recv_starts;
  counts = row->counts, starts = row->starts;
  part = NULL, buffer = NULL, options = defaults;
  if (strstr(row->name, "InitRank") != NULL) {
    if (rank == 0) plait_unique_id_create(&id);
    MPI_Bcast(id.bytes, sizeof id.bytes, MPI_BYTE, 0, mpi);
  }
  snprintf(last_error, sizeof last_error, "%s", plait_last_error());
}

static void end_row(struct page_row* row, plait_comm comm, plait_stream_t used) {
  row->rank = rank, row->size = size;
  plait_comm_rank(comm, &row->comm_rank);
  plait_comm_size(comm, &row->comm_size);
  status = plait_synchronize(comm, used);
  if (status != PLAIT_SUCCESS)
    snprintf(row->error, sizeof row->error, "%s", plait_status_name(status));
  else if (strncmp(plait_last_error(), last_error, sizeof last_error - 1) != 0)
    snprintf(row->error, sizeof row->error, "%s", plait_last_error());
  row->part_rank = row->part_size = -1;
  if (part != NULL && plait_comm_rank(part, &row->part_rank) == PLAIT_SUCCESS) {
    plait_comm_size(part, &row->part_size);
    plait_comm_destroy(part);
  }
  plait_comm_destroy(comm);
  if (used != row->stream) plait_stream_destroy(used);
}

#define BEGIN_ROW(NAME)                          \
  static void row_##NAME(struct page_row* row) { \
    begin_row(row);                              \
    {
#define BEGIN_LINES                                         \
  const plait_comm first = comm;                            \
  if (row->frees_a_part) plait_comm_duplicate(comm, &part); \
  {
#define END_LINES                               \
  }                                             \
  if (comm != first) plait_comm_destroy(first); \
  end_row(row, comm, stream);
#define END_ROW \
  }             \
  }
#include "c.inc"

#define LISTED(NAME) {#NAME, row_##NAME},
const struct row_function c_column[] = {
#include "c_names.inc"
    {NULL, NULL}};
