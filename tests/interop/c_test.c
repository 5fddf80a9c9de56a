/* Every function of Plait's C interface, from C99: mpirun -n N c_test. What it does, and what it
 * says to bad input. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"
#include "plait/collective_table.h"
#include "plait/plait_mpi.h"

enum { count = 1003 };

/* The call must be refused with this status, and its sentence contain all three words. */
#define REFUSED(status, call, a, b, c)                                      \
  do {                                                                      \
    CHECK((call) == (status));                                              \
    CHECK(strstr(plait_last_error(), a) && strstr(plait_last_error(), b) && \
          strstr(plait_last_error(), c));                                   \
    CHECK(strchr(plait_last_error(), '\n') == NULL);                        \
  } while (0)
#define INVALID(call, a, b, c) REFUSED(PLAIT_ERROR_INVALID_ARGUMENT, call, a, b, c)

static void create(void) {
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm other = NULL;
  plait_backend backend;
  int n = -1;
  char text[200], part[8];
  size_t length = 0;
  config.backend = PLAIT_BACKEND_HOST;
  config.timeout_seconds = 30;
  OK(plait_comm_create(MPI_COMM_WORLD, &config, &comm));
  OK(plait_comm_rank(comm, &n));
  CHECK(n == rank);
  OK(plait_comm_size(comm, &n));
  CHECK(n == ranks);
  OK(plait_comm_backend(comm, &backend));
  CHECK(backend == PLAIT_BACKEND_HOST);
  OK(plait_comm_describe(comm, text, sizeof text, &length));
  CHECK(length == strlen(text) && strstr(text, "host device"));
  OK(plait_comm_describe(comm, part, sizeof part, &length)); /* as snprintf does */
  CHECK(strlen(part) == sizeof part - 1 && strncmp(part, text, sizeof part - 1) == 0 &&
        length == strlen(text));
  OK(plait_comm_describe(comm, NULL, 0, &length));
  CHECK(length == strlen(text));
  OK(plait_comm_describe(comm, text, sizeof text, NULL));
  OK(plait_stream_create(comm, &stream));

  OK(plait_comm_create_world(NULL, &other));
  OK(plait_comm_destroy(other));
  OK(plait_comm_create_fortran(MPI_Comm_c2f(MPI_COMM_SELF), &config, &other));
  OK(plait_comm_size(other, &n));
  CHECK(n == 1);
  OK(plait_comm_destroy(other));

  OK(plait_comm_duplicate(comm, &other));
  OK(plait_comm_rank(other, &n));
  CHECK(other != comm && n == rank);
  OK(plait_reserve(other));
  OK(plait_barrier(other, NULL));
  OK(plait_synchronize(other, NULL));
  OK(plait_comm_destroy(other));
  OK(plait_comm_split(comm, rank == 0 ? -1 : 1, -rank, &other)); /* all but rank 0, backwards */
  CHECK((other == NULL) == (rank == 0));
  if (other != NULL) {
    OK(plait_comm_rank(other, &n));
    CHECK(n == ranks - 1 - rank);
    OK(plait_comm_destroy(other));
  }
}

/* The table: what a rank sends and receives, `block` or `blocks`, `root_` on the root alone. */
enum buffer { block, blocks, root_block, root_blocks };
static const struct {
  plait_collective number;
  const char* name;
  enum { no_op, op } op;
  enum buffer send, recv;
} table[] = {
#define ENTRY(NAME, ENUMERATOR, OP, ROOT, SEND, RECV) {PLAIT_##ENUMERATOR, #NAME, OP, SEND, RECV},
    PLAIT_COLLECTIVES(ENTRY, PLAIT_NO_OTHER)
#undef ENTRY
};
enum { rows = sizeof table / sizeof *table };

/* A collective by its own function. */
static plait_status by_name(plait_collective which, plait_comm on, const void* send, void* recv,
                            size_t elements, plait_data_type type, plait_reduce_op operation,
                            int root, const plait_call_options* options) {
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
static void collectives(void) {
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

/* What rank `from` sends to rank `to` in all_to_all_v: nothing, for some. */
static size_t uneven(int from, int to) { return (size_t)((from + 2 * to + 1) % 3) * 101; }

/* Rings, two ranks in turn, a rank with itself, and blocks of all lengths. */
static void messages(void) {
  enum { gap = 3 };
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const size_t room = (size_t)ranks * (2 * 101 + gap);
  double* send = malloc((room + count) * sizeof *send);
  double* recv = malloc((room + count) * sizeof *recv);
  size_t* layout = malloc(4 * (size_t)ranks * sizeof *layout);
  size_t *send_counts = layout, *send_at = layout + ranks, *recv_counts = layout + 2 * ranks,
         *recv_at = layout + 3 * ranks;
  plait_call call = PLAIT_CALL_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  size_t i, end;
  int b;

  for (i = 0; i < count; ++i) send[i] = value(rank, 0, i), recv[i] = -1;
  OK(plait_send_recv(comm, send, count, next, recv, count, before, PLAIT_F64, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count && recv[i] == value(before, 0, i); ++i) continue;
  CHECK(i == count);
  options.algorithm = "pairwise_push";
  OK(plait_send_recv(comm, send, count, before, recv, count, next, PLAIT_F64, stream,
                     &options)); /* the other way round */
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count && recv[i] == value(next, 0, i); ++i) continue;
  CHECK(i == count);
  call.collective = PLAIT_SEND_RECV;
  call.type = PLAIT_F64;
  call.count = count - 1;
  recv[count - 1] = -1;
  OK(plait_enqueue(comm, &call, send, recv, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count - 1 && recv[i] == value(before, 0, i); ++i) continue;
  CHECK(i == count - 1 && recv[i] == -1);

  for (b = 0; b < 3 && ranks > 1; ++b) { /* there, one more, and back */
    recv[0] = -1;
    if (rank == 0) {
      send[0] = 10 * b;
      OK(plait_send(comm, send, 1, PLAIT_F64, 1, stream, NULL));
      OK(plait_recv(comm, recv, 1, PLAIT_F64, 1, stream, NULL));
      OK(plait_synchronize(comm, stream));
      CHECK(recv[0] == 10 * b + 1);
    }
    if (rank == 1) {
      OK(plait_recv(comm, recv, 1, PLAIT_F64, 0, stream, NULL));
      OK(plait_synchronize(comm, stream));
      send[0] = recv[0] + 1;
      OK(plait_send(comm, send, 1, PLAIT_F64, 0, stream, NULL));
      OK(plait_synchronize(comm, stream));
    }
  }

  send[0] = 5 + rank;
  recv[0] = -1;
  OK(plait_group_start());
  OK(plait_send(comm, send, 1, PLAIT_F64, rank, stream, NULL));
  OK(plait_recv(comm, recv, 1, PLAIT_F64, rank, stream, NULL));
  OK(plait_send(comm, NULL, 0, PLAIT_F64, next, stream, NULL)); /* is not sent */
  OK(plait_group_end());
  OK(plait_synchronize(comm, stream));
  CHECK(recv[0] == 5 + rank);

  for (i = 0; i < room; ++i) send[i] = -2, recv[i] = -1;
  for (b = 0, end = 0; b < ranks; ++b) { /* blocks in the order of ranks */
    send_counts[b] = uneven(rank, b);
    send_at[b] = end;
    for (i = 0; i < send_counts[b]; ++i) send[end + i] = value(rank, b, i);
    end += send_counts[b] + gap;
  }
  for (b = ranks - 1, end = 0; b >= 0; --b) { /* and against it */
    recv_counts[b] = uneven(b, rank);
    recv_at[b] = end;
    end += recv_counts[b] + gap;
  }
  OK(plait_all_to_all_v(comm, send, send_counts, send_at, recv, recv_counts, recv_at, PLAIT_F64,
                        stream, NULL));
  memset(layout, 0xff, 4 * (size_t)ranks * sizeof *layout); /* has been read */
  OK(plait_synchronize(comm, stream));
  for (b = ranks - 1, end = 0; b >= 0; --b) {
    const size_t length = uneven(b, rank);
    for (i = 0; i < length && recv[end + i] == value(rank == b ? rank : b, rank, i); ++i) continue;
    CHECK(i == length);
    for (; i < length + gap && recv[end + i] == -1; ++i) continue;
    CHECK(i == length + gap); /* nothing between the blocks */
    end += length + gap;
  }
  free(layout);
  free(send);
  free(recv);
}

static void refused_messages(void) {
  const int peers[] = {-1, ranks, 0x7fffffff};
  const size_t beyond = (size_t)-1 / 8;
  double send[4] = {1, 2, 3, 4}, recv[4] = {0, 0, 0, 0};
  size_t* counts = calloc((size_t)ranks, sizeof *counts);
  size_t* zeros = calloc((size_t)ranks, sizeof *zeros);
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  char number[40];
  unsigned i;
  int null;
  OK(plait_statistics_of(comm, &before));
  for (i = 0; i < sizeof peers / sizeof *peers; ++i) {
    sprintf(number, "peer %d is none of the ranks", peers[i]);
    INVALID(plait_send(comm, send, 1, PLAIT_F64, peers[i], stream, NULL), "send: rank", number, "");
    INVALID(plait_recv(comm, recv, 1, PLAIT_F64, peers[i], stream, NULL), "recv: rank", number, "");
    INVALID(plait_send_recv(comm, send, 1, peers[i], recv, 1, rank, PLAIT_F64, stream, NULL),
            "send_recv: rank", number, "");
    INVALID(plait_send_recv(comm, send, 1, rank, recv, 1, peers[i], PLAIT_F64, stream, NULL),
            "send_recv: rank", number, "");
  }
  INVALID(plait_send(comm, NULL, 2, PLAIT_F64, rank, stream, NULL), "send: rank", "send is null",
          "2");
  INVALID(plait_recv(comm, NULL, 2, PLAIT_F64, rank, stream, NULL), "recv: rank", "recv is null",
          "2");
  INVALID(plait_send(comm, send, (size_t)-1, PLAIT_F64, rank, stream, NULL), "send: rank",
          "overflows", "");

  /* With itself: alone, of another length or type, and in the memory that it sends. */
  INVALID(plait_send(comm, send, 1, PLAIT_F64, rank, stream, NULL), "send: rank", "sends to itself",
          "one group");
  INVALID(plait_send_recv(comm, send, 2, rank, recv, 3, rank, PLAIT_F64, stream, NULL),
          "send_recv: rank", "2 f64", "3 f64");
  INVALID(plait_send_recv(comm, send, 2, rank, send + 1, 2, rank, PLAIT_F64, stream, NULL),
          "send_recv: rank", "same memory", "");
  OK(plait_group_start());
  OK(plait_send(comm, send, 2, PLAIT_F64, rank, stream, NULL));
  OK(plait_recv(comm, recv, 2, PLAIT_I64, rank, stream, NULL));
  INVALID(plait_group_end(), "sends to itself", "2 f64", "2 i64");
  OK(plait_group_start());
  OK(plait_send_recv(comm, send, 2, rank, recv, 2, rank, PLAIT_F64, stream, NULL));
  OK(plait_send(comm, send, 2, PLAIT_F64, ranks, stream, NULL));
  INVALID(plait_group_end(), "send: rank", "peer", "nothing of the group was enqueued");

  for (null = 0; null < 4; ++null) {
    static const char* const names[] = {"send_counts", "send_displacements", "recv_counts",
                                        "recv_displacements"};
    sprintf(number, "%s is NULL", names[null]);
    INVALID(plait_all_to_all_v(comm, send, null == 0 ? NULL : zeros, null == 1 ? NULL : zeros, recv,
                               null == 2 ? NULL : zeros, null == 3 ? NULL : zeros, PLAIT_F64,
                               stream, NULL),
            "plait_all_to_all_v: rank", number, "");
  }
  OK(plait_group_start());
  INVALID(plait_all_to_all_v(comm, send, NULL, zeros, recv, zeros, zeros, PLAIT_F64, stream, NULL),
          "send_counts is NULL", "", "");
  INVALID(plait_group_end(), "call 1", "send_counts is NULL", "nothing of the group was enqueued");
  counts[rank] = 2;
  INVALID(
      plait_all_to_all_v(comm, send, counts, zeros, recv, zeros, zeros, PLAIT_F64, stream, NULL),
      "all_to_all_v: rank", "sends to itself", "receives 0");
  INVALID(
      plait_all_to_all_v(comm, NULL, counts, zeros, recv, counts, zeros, PLAIT_F64, stream, NULL),
      "all_to_all_v: rank", "send is null", "");
  zeros[rank] = beyond;
  INVALID(
      plait_all_to_all_v(comm, send, counts, zeros, recv, counts, counts, PLAIT_F64, stream, NULL),
      "all_to_all_v: rank", "displacement", "overflows");
  OK(plait_synchronize(comm, stream));
  OK(plait_statistics_of(comm, &after));
  CHECK(recv[0] == 0 && recv[1] == 0 && send[1] == 2 && after.calls == before.calls &&
        after.launches == before.launches);
  free(counts);
  free(zeros);
}

/* A communicator and its duplicate are on one device: they share its default stream, and neither
 * frees what a stream still uses. */
static void one_device(void) {
  const size_t many = (size_t)1 << 20;
  float* x = malloc(many * sizeof *x);
  float* y = calloc(many, sizeof *y);
  float* z = calloc(many, sizeof *z);
  plait_comm copy = NULL;
  plait_buffer buffer = NULL;
  void* pointer = NULL;
  size_t i;
  int call;
  OK(plait_comm_duplicate(comm, &copy));
  for (i = 0; i < many; ++i) x[i] = 1;
  OK(plait_all_reduce(comm, x, y, many, PLAIT_F32, PLAIT_SUM, NULL, NULL));
  OK(plait_all_reduce(copy, y, z, many, PLAIT_F32, PLAIT_SUM, NULL, NULL));
  OK(plait_synchronize(copy, NULL));
  for (i = 0; i < many; ++i)
    if (z[i] != (float)(ranks * ranks)) break;
  CHECK(i == many);
  OK(plait_synchronize(comm, NULL));
  OK(plait_buffer_allocate(copy, many * sizeof *x, &buffer));
  OK(plait_buffer_pointer(buffer, &pointer));
  for (call = 0; call < 8; ++call)
    OK(plait_all_reduce(copy, pointer, pointer, many, PLAIT_F32, PLAIT_SUM, stream, NULL));
  OK(plait_buffer_free(buffer));
  OK(plait_synchronize(copy, stream));
  OK(plait_comm_destroy(copy));
  free(x);
  free(y);
  free(z);
}

static void symmetric_memory_and_groups(void) {
  plait_buffer buffer = NULL;
  void* pointer = NULL;
  size_t bytes = 0, i;
  int symmetric = -1, call;
  float* x;
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  OK(plait_buffer_allocate(comm, 4 * count * sizeof *x, &buffer));
  OK(plait_buffer_pointer(buffer, &pointer));
  OK(plait_buffer_bytes(buffer, &bytes));
  CHECK(bytes == 4 * count * sizeof *x);
  OK(plait_is_symmetric(comm, pointer, bytes, &symmetric));
  CHECK(symmetric == 1);
  OK(plait_is_symmetric(comm, &symmetric, 1, &symmetric));
  CHECK(symmetric == 0);
  x = pointer;
  CHECK(x[0] == 0 && x[4 * count - 1] == 0);
  for (i = 0; i < 4 * count; ++i) x[i] = (float)value(rank, 0, i);
  OK(plait_statistics_of(comm, &before));
  OK(plait_group_start());
  for (call = 0; call < 4; ++call)
    OK(plait_all_reduce(comm, x + call * count, x + call * count, count, PLAIT_F32, PLAIT_SUM,
                        stream, NULL));
  OK(plait_group_end());
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < 4 * count; ++i)
    if (x[i] != (float)sum(0, i)) break;
  CHECK(i == 4 * count);
  OK(plait_statistics_of(comm, &after));
  CHECK(after.calls == before.calls + 4 && after.groups == before.groups + 1 &&
        after.fifo_bytes != 0);
  /* straight into the next rank's symmetric memory */
  for (i = 0; i < count; ++i) x[i] = (float)value(rank, 1, i);
  options.algorithm = "pairwise_put";
  options.symmetric = 1;
  OK(plait_send_recv(comm, x, count, next, x + count, count, last, PLAIT_F32, stream, &options));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count; ++i)
    if (x[count + i] != (float)value(last, 1, i)) break;
  CHECK(i == count);
  INVALID(plait_send_recv(comm, x, count, next, &last, 0, last, PLAIT_F32, stream, &options),
          "send_recv: rank", "the option `symmetric`", "is not in symmetric memory");
  INVALID(plait_send(comm, x, count, PLAIT_F32, next, stream, &options), "send: rank",
          "the option `symmetric`", "for send_recv");
  OK(plait_buffer_free(buffer));
  INVALID(plait_buffer_free(buffer), "plait_buffer_free", "buffer", "has been destroyed");
  INVALID(plait_buffer_pointer(buffer, &pointer), "plait_buffer_pointer", "buffer",
          "has been destroyed");
  INVALID(plait_buffer_bytes(buffer, &bytes), "plait_buffer_bytes", "buffer", "has been destroyed");
}

static void questions(void) {
  plait_call call = PLAIT_CALL_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_status status = PLAIT_ERROR_INTERNAL;
  char text[4000];
  size_t length = 0, bytes = 0;
  call.count = 100;
  options.algorithm = "ring";
  OK(plait_chosen(comm, &call, &options, text, sizeof text, &length));
  CHECK(strcmp(text, "ring") == 0 && length == 4);
  OK(plait_chosen(comm, &call, NULL, text, sizeof text, &length));
  CHECK(length != 0 && strcmp(text, "ring") != 0);
  OK(plait_explain(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strstr(text, "all_reduce") && length > 20);
  call.collective = PLAIT_SEND_RECV;
  OK(plait_chosen(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strncmp(text, "pairwise", 8) == 0);
  call.collective = PLAIT_BARRIER;
  OK(plait_explain(comm, &call, NULL, text, sizeof text, &length));
  CHECK(strncmp(text, "barrier", 7) == 0);
  OK(plait_progress_of(comm, &progress));
  CHECK(progress.blocks > 0 && progress.started == progress.completed &&
        progress.started >= progress.blocks);
  OK(plait_async_error(comm, &status));
  CHECK(status == PLAIT_SUCCESS);
  OK(plait_size_of(PLAIT_BF16, &bytes));
  CHECK(bytes == 2);
  CHECK(plait_version() == PLAIT_VERSION_NUMBER);
  CHECK(strcmp(plait_status_name(PLAIT_SUCCESS), "success") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_BOOTSTRAP), "bootstrap") == 0);
  CHECK(strcmp(plait_status_name(PLAIT_ERROR_INTERNAL), "internal") == 0);
  CHECK(strcmp(plait_status_name((plait_status)100), "invalid") == 0);
}

/* Every function that takes a communicator, with good arguments otherwise: the collectives of the
 * table are the last. */
enum { calls_with_communicator = 25 };
static plait_status call_with(plait_comm on, int which) {
  static float x[64];
  static char text[64];
  static const size_t none[64];
  int n;
  size_t length;
  plait_comm made;
  plait_backend backend;
  plait_buffer buffer;
  plait_stream_t native;
  plait_status status;
  plait_call call = PLAIT_CALL_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_statistics statistics = PLAIT_STATISTICS_INIT;
  if (which >= calls_with_communicator)
    return by_name(table[which - calls_with_communicator].number, on, x, x + 32, 1, PLAIT_F32,
                   PLAIT_SUM, 0, NULL);
  switch (which) {
    case 0:
      return plait_comm_split(on, 0, 0, &made);
    case 1:
      return plait_comm_duplicate(on, &made);
    case 2:
      return plait_comm_destroy(on);
    case 3:
      return plait_comm_rank(on, &n);
    case 4:
      return plait_comm_size(on, &n);
    case 5:
      return plait_comm_backend(on, &backend);
    case 6:
      return plait_comm_describe(on, text, sizeof text, &length);
    case 7:
      return plait_buffer_allocate(on, 64, &buffer);
    case 8:
      return plait_is_symmetric(on, x, 4, &n);
    case 9:
      return plait_stream_create(on, &native);
    case 10:
      return plait_copy(on, x, x + 8, 4, NULL);
    case 11:
      return plait_barrier(on, NULL);
    case 12:
      return plait_enqueue(on, &call, x, x, NULL, NULL);
    case 13:
      return plait_synchronize(on, NULL);
    case 14:
      return plait_async_error(on, &status);
    case 15:
      return plait_abort(on, "test");
    case 16:
      return plait_progress_of(on, &progress);
    case 17:
      return plait_statistics_of(on, &statistics);
    case 18:
      return plait_chosen(on, &call, NULL, text, sizeof text, &length);
    case 19:
      return plait_explain(on, &call, NULL, text, sizeof text, &length);
    case 20:
      return plait_send(on, x, 1, PLAIT_F32, 0, NULL, NULL);
    case 21:
      return plait_recv(on, x, 1, PLAIT_F32, 0, NULL, NULL);
    case 22:
      return plait_send_recv(on, x, 1, 0, x + 32, 1, 0, PLAIT_F32, NULL, NULL);
    case 23:
      return plait_reserve(on);
    default:
      return plait_all_to_all_v(on, x, none, none, x + 32, none, none, PLAIT_F32, NULL, NULL);
  }
}

static void bad_handles(void) {
  static const char* const names[calls_with_communicator] = {
      "comm_split",   "comm_duplicate", "comm_destroy",    "comm_rank",    "comm_size",
      "comm_backend", "comm_describe",  "buffer_allocate", "is_symmetric", "stream_create",
      "copy",         "barrier",        "enqueue",         "synchronize",  "async_error",
      "abort",        "progress_of",    "statistics_of",   "chosen",       "explain",
      "send",         "recv",           "send_recv",       "reserve",      "all_to_all_v"};
  plait_comm dead = NULL;
  plait_buffer of_dead = NULL, live = NULL;
  void* pointer;
  int which;
  OK(plait_comm_duplicate(comm, &dead));
  OK(plait_buffer_allocate(dead, 100, &of_dead));
  OK(plait_buffer_allocate(comm, 100, &live));
  OK(plait_comm_destroy(dead)); /* takes its buffer along */
  INVALID(plait_buffer_pointer(of_dead, &pointer), "plait_buffer_pointer", "buffer",
          "has been destroyed");
  INVALID(plait_buffer_free(of_dead), "plait_buffer_free", "buffer", "has been destroyed");
  for (which = 0; which < calls_with_communicator + rows; ++which) {
    const int row = which - calls_with_communicator;
    char name[64];
    sprintf(name, "plait_%s: ", row < 0 ? names[which] : table[row].name);
    INVALID(call_with(dead, which), name, "communicator", "has been destroyed");
    INVALID(call_with(NULL, which), name, "communicator", "is NULL");
    INVALID(call_with((plait_comm)(void*)live, which), name, "is a buffer, not a communicator", "");
    INVALID(call_with((plait_comm)(void*)&which, which), name, "0x", "communicator");
  }
  INVALID(plait_buffer_pointer(NULL, &pointer), "plait_buffer_pointer", "buffer is NULL", "");
  INVALID(plait_buffer_pointer((plait_buffer)(void*)comm, &pointer),
          "is a communicator, not a buffer", "", "");
  INVALID(plait_buffer_free(NULL), "plait_buffer_free", "buffer is NULL", "");
  OK(plait_buffer_free(live));
  INVALID(plait_stream_destroy(NULL), "plait_stream_destroy", "no stream", "");
  INVALID(plait_stream_destroy(&which), "plait_stream_destroy", "no stream", "");
}

static void null_pointers(void) {
  plait_buffer buffer = NULL;
  char text[8];
  float x[8] = {0};
  OK(plait_buffer_allocate(comm, 8, &buffer));
  INVALID(plait_comm_create(MPI_COMM_WORLD, NULL, NULL), "plait_comm_create: ", "comm is NULL", "");
  INVALID(plait_comm_create(MPI_COMM_NULL, NULL, &comm), "MPI_COMM_NULL", "", "");
#ifdef OPEN_MPI /* its handles are pointers, and null where Fortran's integer is no communicator's \
                 */
  INVALID(plait_comm_create(NULL, NULL, &comm), "none of MPI's", "", "");
  INVALID(plait_comm_create_fortran(-1, NULL, &comm), "none of MPI's", "", "");
  INVALID(plait_comm_create_fortran(4711, NULL, &comm), "none of MPI's", "", "");
#endif
  INVALID(plait_comm_create_world(NULL, NULL), "plait_comm_create_world", "comm is NULL", "");
  INVALID(plait_comm_create_fortran(0, NULL, NULL), "plait_comm_create_fortran", "comm is NULL",
          "");
  INVALID(plait_comm_split(comm, 0, 0, NULL), "plait_comm_split", "part is NULL", "");
  INVALID(plait_comm_duplicate(comm, NULL), "plait_comm_duplicate", "copy is NULL", "");
  INVALID(plait_comm_rank(comm, NULL), "plait_comm_rank: rank ", "rank is NULL", "");
  INVALID(plait_comm_size(comm, NULL), "plait_comm_size", "size is NULL", "");
  INVALID(plait_comm_backend(comm, NULL), "plait_comm_backend", "backend is NULL", "");
  INVALID(plait_comm_describe(comm, NULL, 7, NULL), "plait_comm_describe", "text is NULL", "7");
  INVALID(plait_buffer_allocate(comm, 8, NULL), "plait_buffer_allocate", "buffer is NULL", "");
  INVALID(plait_buffer_pointer(buffer, NULL), "plait_buffer_pointer", "pointer is NULL", "");
  INVALID(plait_buffer_bytes(buffer, NULL), "plait_buffer_bytes", "bytes is NULL", "");
  INVALID(plait_is_symmetric(comm, x, 4, NULL), "plait_is_symmetric", "result is NULL", "");
  INVALID(plait_stream_create(comm, NULL), "plait_stream_create", "stream is NULL", "");
  INVALID(plait_copy(comm, NULL, x, 4, stream), "copy: rank", "to is null", "4 bytes");
  INVALID(plait_copy(comm, x, NULL, 4, stream), "copy: rank", "from is null", "4 bytes");
  INVALID(plait_all_reduce(comm, NULL, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL),
          "all_reduce: rank", "send is null", "2");
  INVALID(plait_enqueue(comm, NULL, x, x, stream, NULL), "plait_enqueue: rank", "call is NULL", "");
  INVALID(plait_async_error(comm, NULL), "plait_async_error", "status is NULL", "");
  INVALID(plait_progress_of(comm, NULL), "plait_progress_of", "progress is NULL", "");
  INVALID(plait_statistics_of(comm, NULL), "plait_statistics_of", "statistics is NULL", "");
  INVALID(plait_chosen(comm, NULL, NULL, text, sizeof text, NULL), "plait_chosen: rank",
          "call is NULL", "");
  INVALID(plait_explain(comm, NULL, NULL, text, sizeof text, NULL), "plait_explain: rank",
          "call is NULL", "");
  INVALID(plait_size_of(PLAIT_F32, NULL), "plait_size_of", "bytes is NULL", "");
  OK(plait_buffer_free(buffer));
}

static void bad_numbers(void) {
  static const int wrong[] = {-1,  12,        255, 256,
                              300, 0x7fffffff}; /* 256 would be the first type, cut to a byte */
  float x[8] = {0};
  size_t bytes = 77;
  const size_t zero = 0; /* the type is refused before counts are read */
  unsigned i;
  int row;
  char number[20], text[8];
  plait_call call = PLAIT_CALL_INIT;
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm made = NULL;
  for (i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    const plait_data_type type = (plait_data_type)wrong[i];
    const plait_reduce_op operation = (plait_reduce_op)wrong[i];
    sprintf(number, "%d is no ", wrong[i]);
    INVALID(plait_size_of(type, &bytes), "plait_size_of", number, "data type");
    for (row = 0; row < rows; ++row) {
      char name[64];
      sprintf(name, "plait_%s: rank", table[row].name);
      INVALID(by_name(table[row].number, comm, x, x, 1, type, PLAIT_SUM, 0, NULL), name, number,
              "data type");
      if (table[row].op)
        INVALID(by_name(table[row].number, comm, x, x, 1, PLAIT_F32, operation, 0, NULL), name,
                number, "operation");
    }
    INVALID(plait_send(comm, x, 1, type, 0, stream, NULL), "plait_send: rank", number, "data type");
    INVALID(plait_recv(comm, x, 1, type, 0, stream, NULL), "plait_recv: rank", number, "data type");
    INVALID(plait_send_recv(comm, x, 1, 0, x + 4, 1, 0, type, stream, NULL),
            "plait_send_recv: rank", number, "data type");
    INVALID(plait_all_to_all_v(comm, x, &zero, &zero, x, &zero, &zero, type, stream, NULL),
            "plait_all_to_all_v: rank", number, "data type");
    call.collective = (plait_collective)wrong[i];
    INVALID(plait_enqueue(comm, &call, x, x, stream, NULL), "plait_enqueue: rank", number,
            "collective");
    INVALID(plait_chosen(comm, &call, NULL, text, sizeof text, NULL), "plait_chosen: rank", number,
            "collective");
  }
  CHECK(bytes == 77);
  config.backend = (plait_backend)3;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "3 is no backend",
          "");
  config.backend = PLAIT_BACKEND_HOST;
  config.device = -2;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world", "-2 is no device",
          "");
  config.device = -1;
  config.timeout_seconds = -5;
  INVALID(plait_comm_create_world(&config, &made), "plait_comm_create_world",
          "timeout_seconds is -5", "");
  CHECK(made == NULL);
  /* The library's own refusals come through. */
  INVALID(plait_broadcast(comm, x, x, 1, PLAIT_F32, ranks, stream, NULL), "broadcast: rank", "root",
          "");
  REFUSED(PLAIT_ERROR_UNSUPPORTED,
          plait_all_reduce(comm, x, x, 1, PLAIT_I32, PLAIT_PREMUL_SUM, stream, NULL), "premul_sum",
          "i32", "rank");
}

static void structure_sizes(void) {
  /* Longer than any structure, so that a wrong size is the only thing wrong. */
  union {
    size_t size;
    plait_config config;
    plait_call_options options;
    plait_call call;
    plait_statistics statistics;
    plait_progress progress;
    unsigned char bytes[512];
  } any;
  plait_comm made = NULL;
  float x[2] = {1, 1};
  char text[100], number[100];
  int which;
  static const size_t known[] = {sizeof(plait_config), sizeof(plait_call_options),
                                 sizeof(plait_call), sizeof(plait_progress),
                                 sizeof(plait_statistics)};
  static const char* const names[] = {"plait_config", "plait_call_options", "plait_call",
                                      "plait_progress", "plait_statistics"};
  for (which = 0; which < 5; ++which) {
    int step;
    for (step = 0; step < 4; ++step) {
      const size_t wrong[] = {0, sizeof(size_t) - 1, known[which] + 1, (size_t)-1};
      memset(&any, 0, sizeof any);
      any.size = wrong[step];
      sprintf(number, "%s has size %lu, and Plait ", names[which], (unsigned long)wrong[step]);
      if (which == 0)
        INVALID(plait_comm_create_world(&any.config, &made), "plait_comm_create_world", number, "");
      if (which == 1)
        INVALID(plait_all_reduce(comm, x, x, 1, PLAIT_F32, PLAIT_SUM, stream, &any.options),
                "plait_all_reduce: rank", number, "");
      if (which == 2)
        INVALID(plait_enqueue(comm, &any.call, x, x, stream, NULL), "plait_enqueue: rank", number,
                "");
      if (which == 3)
        INVALID(plait_progress_of(comm, &any.progress), "plait_progress_of", number, "");
      if (which == 4)
        INVALID(plait_statistics_of(comm, &any.statistics), "plait_statistics_of", number, "");
      sprintf(number, " knows %lu to %lu: ", (unsigned long)sizeof(size_t),
              (unsigned long)known[which]);
      CHECK(strstr(plait_last_error(), number));
    }
  }

  /* Structures of earlier versions: what is behind their end is neither read nor written. */
  memset(&any, 0xee, sizeof any);
  any.size = offsetof(plait_config, device);
  any.config.backend = PLAIT_BACKEND_HOST;
  OK(plait_comm_create_world(&any.config, &made));
  OK(plait_comm_destroy(made));
  any.size = sizeof(size_t);
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, &any.options));
  any.size = offsetof(plait_call_options, scale) + 4; /* half a member is none */
  any.options.algorithm = "ring";
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_PREMUL_SUM, stream, &any.options));
  OK(plait_synchronize(comm, stream));
  CHECK(x[0] == (float)(ranks * ranks));
  any.size = offsetof(plait_call, type);
  any.call.collective = PLAIT_BROADCAST;
  OK(plait_explain(comm, &any.call, NULL, text, sizeof text, NULL));
  CHECK(strstr(text, "broadcast"));
  memset(&any, 0xee, sizeof any);
  any.size = offsetof(plait_statistics, groups);
  OK(plait_statistics_of(comm, &any.statistics));
  CHECK(any.statistics.calls != 0 && any.statistics.launches != 0 &&
        any.bytes[offsetof(plait_statistics, groups)] == 0xee);
  any.size = offsetof(plait_progress, completed);
  OK(plait_progress_of(comm, &any.progress));
  CHECK(any.progress.blocks != 0 && any.bytes[offsetof(plait_progress, completed)] == 0xee);
}

static void groups_with_errors(void) {
  float x[4] = {1, 2, 3, 4};
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  INVALID(plait_group_end(), "group_end", "no group", "");
  OK(plait_statistics_of(comm, &before));
  /* What the border refuses, and what the communicator refuses: in both cases nothing of the group
   * is enqueued. */
  OK(plait_group_start());
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_all_reduce(comm, x, x, 2, (plait_data_type)99, PLAIT_SUM, stream, NULL),
          "plait_all_reduce: rank", "99", "type");
  INVALID(plait_group_end(), "call 2", "99 is no data type", "nothing of the group was enqueued");
  OK(plait_group_start());
  OK(plait_all_reduce(comm, x, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_refuse("elsewhere: no"), "elsewhere: no", "", "");
  INVALID(plait_refuse(NULL), "plait_refuse", "sentence is NULL", "");
  INVALID(plait_group_end(), "call 2", "elsewhere: no", "nothing of the group was enqueued");
  OK(plait_group_start());
  OK(plait_all_reduce(comm, NULL, x, 2, PLAIT_F32, PLAIT_SUM, stream, NULL));
  INVALID(plait_barrier(NULL, stream), "plait_barrier", "NULL", "");
  INVALID(plait_group_end(), "call 1", "send is null", "nothing of the group was enqueued");
  OK(plait_synchronize(comm, stream));
  CHECK(x[0] == 1 && x[1] == 2);
  OK(plait_statistics_of(comm, &after));
  CHECK(after.calls == before.calls && after.launches == before.launches);
}

/* What the options of each collective, and of a call as data, do: on a communicator of their own,
 * which starts to count at 0. */
static void options_of_calls(void) {
  enum { blocks_wanted = 3, threads = 5, few = 40 };
  enum { messages = rows, as_data, ways };
  plait_comm fresh = NULL;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT, nonsense = PLAIT_CALL_OPTIONS_INIT;
  plait_call call = PLAIT_CALL_INIT;
  plait_progress progress = PLAIT_PROGRESS_INIT;
  plait_statistics statistics = PLAIT_STATISTICS_INIT;
  plait_buffer buffer = NULL;
  void* memory = NULL;
  double* send = calloc((size_t)ranks * few, sizeof *send);
  double* recv = calloc((size_t)ranks * few, sizeof *recv);
  size_t* counts = calloc((size_t)ranks, sizeof *counts);
  char text[4000];
  int which, asked;
  OK(plait_comm_duplicate(comm, &fresh));
  options.blocks = blocks_wanted;
  options.threads = threads;
  nonsense.algorithm = "nonsense";

  call.type = PLAIT_F64;
  call.count = few;
  for (which = 0; which < ways; ++which)
    for (asked = 0; asked < 2; ++asked) {
      const plait_call_options* with = asked == 0 ? &nonsense : &options;
      const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
      plait_progress then = PLAIT_PROGRESS_INIT, now = PLAIT_PROGRESS_INIT;
      plait_status status;
      OK(plait_progress_of(fresh, &then));
      if (which == messages)
        status =
            plait_send_recv(fresh, send, few, next, recv, few, before, PLAIT_F64, stream, with);
      else if (which == as_data) status = plait_enqueue(fresh, &call, send, recv, stream, with);
      else
        status =
            by_name(table[which].number, fresh, send, recv, few, PLAIT_F64, PLAIT_SUM, 0, with);
      if (asked == 0) {
        CHECK(status == PLAIT_ERROR_INVALID_ARGUMENT &&
              strstr(plait_last_error(), "\"nonsense\"") != NULL);
        continue;
      }
      CHECK(status == PLAIT_SUCCESS);
      OK(plait_synchronize(fresh, stream));
      OK(plait_progress_of(fresh, &now));
      if (ranks > 1 && (which == messages ? now.started == then.started /* as many as workers */
                                          : now.started - then.started != blocks_wanted)) {
        fprintf(stderr, "collective %d: %lu blocks\n", which,
                (unsigned long)(now.started - then.started));
        report(__FILE__, __LINE__, "not the blocks that were asked for");
      }
    }
  OK(plait_progress_of(fresh, &progress));
  CHECK(ranks == 1 || progress.blocks == blocks_wanted);
  INVALID(plait_all_to_all_v(fresh, send, counts, counts, recv, counts, counts, PLAIT_F64, stream,
                             &nonsense),
          "\"nonsense\"", "", "");
  if (ranks > 1)
    INVALID(plait_send(fresh, send, 1, PLAIT_F64, (rank + 1) % ranks, stream, &nonsense),
            "\"nonsense\"", "", "");
  if (ranks > 1)
    INVALID(plait_recv(fresh, recv, 1, PLAIT_F64, (rank + 1) % ranks, stream, &nonsense),
            "\"nonsense\"", "", "");

  OK(plait_explain(fresh, &call, &options, text, sizeof text, NULL));
  CHECK(ranks == 1 || strstr(text, "3 blocks of 5 threads") != NULL);
  options.threads = 1u << 20;
  INVALID(plait_all_reduce(fresh, send, recv, few, PLAIT_F64, PLAIT_SUM, stream, &options),
          "1048576", "threads", "");

  /* The operation of a call as data. */
  call.op = PLAIT_MAX;
  send[0] = rank;
  OK(plait_enqueue(fresh, &call, send, recv, stream, NULL));
  OK(plait_synchronize(fresh, stream));
  CHECK(recv[0] == ranks - 1);

  /* Where its memory is: some algorithms want symmetric memory. */
  nonsense.algorithm = "direct_copy";
  call.collective = PLAIT_ALL_GATHER;
  if (ranks > 1)
    REFUSED(PLAIT_ERROR_UNSUPPORTED, plait_chosen(fresh, &call, &nonsense, text, sizeof text, NULL),
            "symmetric", "", "");
  call.symmetric = 1;
  OK(plait_chosen(fresh, &call, &nonsense, text, sizeof text, NULL));
  CHECK(ranks == 1 || strcmp(text, "direct_copy") == 0);
  OK(plait_buffer_allocate(fresh, 2 * (size_t)ranks * few * sizeof *send, &buffer));
  OK(plait_buffer_pointer(buffer, &memory));
  call.symmetric = 0; /* `plait_enqueue` finds out by itself */
  OK(plait_enqueue(fresh, &call, memory, (double*)memory + (size_t)ranks * few, stream, &nonsense));
  OK(plait_synchronize(fresh, stream));

  OK(plait_statistics_of(fresh, &statistics));
  CHECK(statistics.calls == 12);
  CHECK(statistics.groups == 0);
  options.algorithm = "oneshot_ll";
  options.blocks = options.threads = 0;
  OK(plait_group_start());
  OK(plait_all_reduce(fresh, send, recv, few / 2, PLAIT_F64, PLAIT_SUM, stream, &options));
  OK(plait_all_reduce(fresh, send + few / 2, recv + few / 2, few / 2, PLAIT_F64, PLAIT_SUM, stream,
                      &options));
  OK(plait_group_end());
  OK(plait_synchronize(fresh, stream));
  OK(plait_statistics_of(fresh, &statistics));
  CHECK(statistics.groups == 1 && statistics.calls == 14);
  CHECK(ranks == 1 || (statistics.batched == 2 && statistics.launches_in_arguments == 1 &&
                       statistics.items_in_arguments == 2));

  OK(plait_comm_destroy(fresh));
  free(counts);
  free(send);
  free(recv);
}

/* The last rank comes too late. */
static void deadline(void) {
  plait_config config = PLAIT_CONFIG_INIT;
  plait_comm hasty = NULL;
  plait_status status = PLAIT_SUCCESS;
  if (ranks == 1) return;
  config.backend = PLAIT_BACKEND_HOST;
  config.timeout_seconds = 0.5;
  OK(plait_comm_create_world(&config, &hasty));
  if (rank != ranks - 1) {
    OK(plait_barrier(hasty, stream));
    CHECK(plait_synchronize(hasty, stream) == PLAIT_ERROR_TIMEOUT &&
          strstr(plait_last_error(), "waited 0.5 s") != NULL);
  } else {
    do OK(plait_async_error(hasty, &status)); /* the others' */
    while (status == PLAIT_SUCCESS);
    CHECK(status == PLAIT_ERROR_TIMEOUT);
  }
  OK(plait_comm_destroy(hasty));
}

static void* on_a_thread(void* seen) {
  plait_status status;
  int* result = seen;
  *result = plait_last_error()[0] == '\0'; /* the main thread's errors are its own */
  *result &= plait_group_end() == PLAIT_ERROR_INVALID_ARGUMENT &&
             strstr(plait_last_error(), "group_end") != NULL;
  *result &= plait_async_error(comm, &status) == PLAIT_SUCCESS && status == PLAIT_SUCCESS;
  *result &= strstr(plait_last_error(), "group_end") != NULL; /* what succeeds leaves it */
  return NULL;
}

static void threads(void) {
  pthread_t thread;
  int good = 0;
  INVALID(plait_comm_rank(NULL, &good), "plait_comm_rank", "NULL", "");
  CHECK(pthread_create(&thread, NULL, on_a_thread, &good) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(good);
  CHECK(strstr(plait_last_error(), "plait_comm_rank") != NULL);
}

/* The last rank aborts; the others, which wait for it, get its number and the reason. */
static void* abort_it(void* of) { return plait_abort(of, "enough") == PLAIT_SUCCESS ? of : NULL; }
static void aborting(void) {
  plait_comm copy = NULL;
  plait_status status = PLAIT_SUCCESS;
  pthread_t thread;
  void* returned = NULL;
  float x[4] = {0};
  char by[40];
  OK(plait_comm_duplicate(comm, &copy));
  sprintf(by, "rank %d", ranks - 1);
  if (rank == ranks - 1) {
    CHECK(pthread_create(&thread, NULL, abort_it, copy) == 0);
    CHECK(pthread_join(thread, &returned) == 0 && returned == copy);
  } else {
    const plait_status enqueued =
        plait_all_reduce(copy, x, x, 4, PLAIT_F32, PLAIT_SUM, stream, NULL);
    CHECK(enqueued == PLAIT_SUCCESS || enqueued == PLAIT_ERROR_ABORTED);
  }
  REFUSED(PLAIT_ERROR_ABORTED, plait_synchronize(copy, stream), by, "aborted", "enough");
  OK(plait_async_error(copy, &status));
  CHECK(status == PLAIT_ERROR_ABORTED && strstr(plait_last_error(), "enough"));
  OK(plait_comm_destroy(copy));
}

/* Asked for a communicator, MPI itself would end the program. */
static void after_the_end_of_mpi(void) {
  const MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD);
  plait_comm late = NULL;
  MPI_Finalize();
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create_fortran(world, NULL, &late),
          "plait_comm_create_fortran", "finalised", "");
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create(MPI_COMM_WORLD, NULL, &late), "finalised", "",
          "");
  REFUSED(PLAIT_ERROR_BOOTSTRAP, plait_comm_create_world(NULL, &late), "finalised", "", "");
  CHECK(late == NULL);
}

int main(int argc, char** argv) {
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(plait_last_error()[0] == '\0');
  create();
  if (failures == 0) {
    collectives();
    messages();
    refused_messages();
    one_device();
    symmetric_memory_and_groups();
    questions();
    bad_handles();
    null_pointers();
    bad_numbers();
    structure_sizes();
    groups_with_errors();
    options_of_calls();
    deadline();
    threads();
    aborting();
    collectives(); /* none of it has harmed the communicator */
    messages();
  }
  OK(plait_comm_destroy(comm));
  OK(plait_stream_destroy(stream)); /* streams outlive communicators */
  INVALID(plait_stream_destroy(stream), "plait_stream_destroy", "destroyed", "");
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: %s\n", ranks, failures == 0 ? "passed" : "FAILED");
  after_the_end_of_mpi();
  return failures != 0;
}
