/* Messages of the C interface: their results, and the ones that are refused. */
#include <stdlib.h>
#include <string.h>

#include "c_test.h"

/* A number goes from rank 0 to rank 1, and comes back with one added. */
static void there_and_back(double* send, double* recv) {
  int b;
  for (b = 0; b < 3 && ranks > 1; ++b) {
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
}

/* Rings by other ways than c_device_test's, lines, two ranks in turn, and a rank with itself. */
void messages(void) {
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  double* send = malloc(count * sizeof *send);
  double* recv = malloc(count * sizeof *recv);
  plait_call call = PLAIT_CALL_INIT;
  plait_call_options options = PLAIT_CALL_OPTIONS_INIT;
  size_t i;
  int left, right;
  const int open_ends = 0;
  MPI_Comm line;

  ++turn;
  for (i = 0; i < count; ++i) send[i] = value(rank, 0, i), recv[i] = -1;
  MPI_Cart_create(MPI_COMM_WORLD, 1, &ranks, &open_ends, 0, &line);
  MPI_Cart_shift(line, 0, 1, &left, &right); /* the ends of the line have one neighbour */
  MPI_Comm_free(&line);
  left = plait_peer_from_mpi(left), right = plait_peer_from_mpi(right);
  CHECK(left == (rank == 0 ? PLAIT_PROC_NULL : before));
  CHECK(right == (rank == ranks - 1 ? PLAIT_PROC_NULL : next));
  CHECK(plait_peer_from_mpi(MPI_PROC_NULL) == PLAIT_PROC_NULL);
  OK(plait_send_recv(comm, rank == ranks - 1 ? NULL : send, count, right, rank == 0 ? NULL : recv,
                     count, left, PLAIT_F64, stream, NULL));
  OK(plait_send(comm, NULL, 3, PLAIT_F64, PLAIT_PROC_NULL, stream, NULL));
  OK(plait_recv(comm, NULL, 3, PLAIT_F64, PLAIT_PROC_NULL, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < count && recv[i] == (rank == 0 ? -1 : value(before, 0, i)); ++i) continue;
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

  there_and_back(send, recv);

  send[0] = 5 + rank;
  recv[0] = -1;
  OK(plait_group_start());
  OK(plait_send(comm, send, 1, PLAIT_F64, rank, stream, NULL));
  OK(plait_recv(comm, recv, 1, PLAIT_F64, rank, stream, NULL));
  OK(plait_send(comm, NULL, 0, PLAIT_F64, next, stream, NULL)); /* is not sent */
  OK(plait_group_end());
  OK(plait_synchronize(comm, stream));
  CHECK(recv[0] == 5 + rank);
  free(send);
  free(recv);
}

/* Arguments of the calls with blocks of all ranks; c_device_test has their results. */
void uneven_blocks(void) {
  size_t* layout = calloc(2 * (size_t)ranks, sizeof *layout);
  size_t *counts = layout, *at = layout + ranks;
  double all[4] = {0}, block[2] = {0};
  counts[rank] = 2;
  INVALID(plait_all_gather_v(comm, block, 1, all, counts, at, PLAIT_F64, stream, NULL),
          "all_gather_v: rank", "its block has", "its block of recv has");
  INVALID(plait_gather_v(comm, block, 1, all, counts, at, PLAIT_F64, ranks, stream, NULL),
          "gather_v: rank", "root", "none of the ranks");
  INVALID(plait_scatter_v(comm, all, NULL, at, block, 1, PLAIT_F64, rank, stream, NULL),
          "plait_scatter_v: rank", "send_counts is NULL");
  INVALID(plait_gather_v(comm, block, 1, all, counts, NULL, PLAIT_F64, rank, stream, NULL),
          "plait_gather_v: rank", "recv_displacements is NULL");
  free(layout);
}

/* The halos of a ring, with left and right neighbours that may be one rank, or this one. */
void halos(void) {
  const int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  const int to[] = {left, PLAIT_PROC_NULL, right}, from[] = {right, PLAIT_PROC_NULL, left};
  const size_t counts[] = {2, 99, 2}, edges[] = {2, 99, 4}, places[] = {6, 99, 0};
  double cells[8] = {-1, -1, 0, 0, 0, 0, -1, -1};
  int i;
  for (i = 0; i < 4; ++i) cells[2 + i] = 10 * rank + i;
  OK(plait_neighbor_all_to_all_v(comm, cells, 3, to, counts, edges, cells, 3, from, counts, places,
                                 PLAIT_F64, stream, NULL));
  OK(plait_neighbor_all_to_all_v(comm, NULL, 0, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL,
                                 PLAIT_F64, stream, NULL));
  OK(plait_synchronize(comm, stream));
  for (i = 0; i < 2; ++i) CHECK(cells[i] == 10 * left + 2 + i && cells[6 + i] == 10 * right + i);
  for (i = 0; i < 4; ++i) CHECK(cells[2 + i] == 10 * rank + i);
  INVALID(plait_neighbor_all_to_all_v(comm, cells, 1, NULL, counts, edges, cells, 0, NULL, NULL,
                                      NULL, PLAIT_F64, stream, NULL),
          "plait_neighbor_all_to_all_v: rank", "send_peers is NULL");
}

/* What the C interface refuses itself, and what tells that each argument reaches the library. */
void refused_messages(void) {
  double send[4] = {1, 2, 3, 4}, recv[4] = {0, 0, 0, 0};
  size_t* counts = calloc((size_t)ranks, sizeof *counts);
  size_t* zeros = calloc((size_t)ranks, sizeof *zeros);
  plait_statistics before = PLAIT_STATISTICS_INIT, after = PLAIT_STATISTICS_INIT;
  char number[40];
  int null;
  OK(plait_statistics_of(comm, &before));
  sprintf(number, "peer %d is none of the ranks", ranks);
  INVALID(plait_send(comm, send, 1, PLAIT_F64, ranks, stream, NULL), "send: rank", number);
  INVALID(plait_recv(comm, recv, 1, PLAIT_F64, ranks, stream, NULL), "recv: rank", number);
  INVALID(plait_send_recv(comm, send, 1, ranks, recv, 1, rank, PLAIT_F64, stream, NULL),
          "send_recv: rank", number);
  INVALID(plait_send_recv(comm, send, 1, rank, recv, 1, ranks, PLAIT_F64, stream, NULL),
          "send_recv: rank", number);
  INVALID(plait_send(comm, NULL, 2, PLAIT_F64, rank, stream, NULL), "send: rank", "send is null",
          "2");
  INVALID(plait_recv(comm, NULL, 2, PLAIT_F64, rank, stream, NULL), "recv: rank", "recv is null",
          "2");
  INVALID(plait_send_recv(comm, send, 2, rank, recv, 3, rank, PLAIT_F64, stream, NULL),
          "send_recv: rank", "2 f64", "3 f64");
  OK(plait_group_start());
  OK(plait_send(comm, send, 2, PLAIT_F64, rank, stream, NULL));
  OK(plait_recv(comm, recv, 2, PLAIT_I64, rank, stream, NULL));
  INVALID(plait_group_end(), "sends to itself", "2 f64", "2 i64");

  for (null = 0; null < 4; ++null) {
    static const char* const names[] = {"send_counts", "send_displacements", "recv_counts",
                                        "recv_displacements"};
    sprintf(number, "%s is NULL", names[null]);
    INVALID(plait_all_to_all_v(comm, send, null == 0 ? NULL : zeros, null == 1 ? NULL : zeros, recv,
                               null == 2 ? NULL : zeros, null == 3 ? NULL : zeros, PLAIT_F64,
                               stream, NULL),
            "plait_all_to_all_v: rank", number);
  }
  OK(plait_group_start());
  INVALID(plait_all_to_all_v(comm, send, NULL, zeros, recv, zeros, zeros, PLAIT_F64, stream, NULL),
          "send_counts is NULL");
  INVALID(plait_group_end(), "call 1", "send_counts is NULL", "nothing of the group was enqueued");
  counts[rank] = 2;
  INVALID(
      plait_all_to_all_v(comm, send, counts, zeros, recv, zeros, zeros, PLAIT_F64, stream, NULL),
      "all_to_all_v: rank", "sends to itself", "receives 0");
  INVALID(
      plait_all_to_all_v(comm, NULL, counts, zeros, recv, counts, zeros, PLAIT_F64, stream, NULL),
      "all_to_all_v: rank", "send is null");
  OK(plait_synchronize(comm, stream));
  OK(plait_statistics_of(comm, &after));
  CHECK(recv[0] == 0 && recv[1] == 0 && send[1] == 2 && after.calls == before.calls &&
        after.launches == before.launches);
  free(counts);
  free(zeros);
}
