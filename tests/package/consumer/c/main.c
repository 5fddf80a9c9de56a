/* A user's C program with an installed Plait: the sum of one array over all ranks, checked.
 * With MPI of its own, or without. */
#include <plait/plait.h>
#include <stdio.h>
#ifdef CONSUMER_CALLS_MPI
#include <plait/plait_mpi.h>
#endif

enum { count = 1001 };

static int check(plait_status status) {
  if (status == PLAIT_SUCCESS) return 1;
  fprintf(stderr, "consumer: %s: %s\n", plait_status_name(status), plait_last_error());
  return 0;
}

int main(int argc, char** argv) {
  plait_comm comm;
  plait_buffer buffer;
  plait_stream_t stream;
  void* x;
  float values[count];
  int rank, ranks, i;
#ifdef CONSUMER_CALLS_MPI
  MPI_Init(&argc, &argv);
  if (!check(plait_comm_create(MPI_COMM_WORLD, NULL, &comm))) return 1;
#else
  (void)argc, (void)argv;
  if (!check(plait_comm_create_world(NULL, &comm))) return 1;
#endif
  if (!check(plait_comm_rank(comm, &rank)) || !check(plait_comm_size(comm, &ranks))) return 1;
  for (i = 0; i < count; ++i) values[i] = (float)(i + rank);

  if (!check(plait_buffer_allocate(comm, sizeof values, &buffer)) ||
      !check(plait_buffer_pointer(buffer, &x)) || !check(plait_stream_create(comm, &stream)) ||
      !check(plait_copy(comm, x, values, sizeof values, stream)) ||
      !check(plait_all_reduce(comm, x, x, count, PLAIT_F32, PLAIT_SUM, stream, NULL)) ||
      !check(plait_copy(comm, values, x, sizeof values, stream)) ||
      !check(plait_synchronize(comm, stream)))
    return 1;
  for (i = 0; i < count; ++i) {
    const float expected = (float)(ranks * i + ranks * (ranks - 1) / 2);
    if (values[i] != expected) {
      fprintf(stderr, "rank %d: element %d is %g, not %g\n", rank, i, values[i], expected);
      return 1;
    }
  }
  if (!check(plait_buffer_free(buffer)) || !check(plait_stream_destroy(stream)) ||
      !check(plait_comm_destroy(comm)))
    return 1;
  printf("OK: C, Plait %d, rank %d of %d\n", plait_version(), rank, ranks);
#ifdef CONSUMER_CALLS_MPI
  MPI_Finalize();
#endif
  return 0;
}
