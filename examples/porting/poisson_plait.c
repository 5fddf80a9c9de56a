/* Solves -Laplace u = f on the unit cube, with u = 0 on its faces, by conjugate gradients on n^3
 * points; n is the program's argument. Each rank has some of the z layers. An array has one more
 * point on every side: the faces of the cube, which stay 0, or the halo, a copy of the neighbour's
 * nearest layer. */
#include <math.h>
#include <plait/plait_mpi.h>
#include <stdio.h>
#include <stdlib.h>

static const double tolerance = 1e-8; /* of the residual, relative to that of u = 0 */

static plait_comm comm;
static plait_stream_t stream;
static int up = PLAIT_PROC_NULL, down = PLAIT_PROC_NULL; /* for ranks at a face of the cube */

/* MPI ends the job at an error, Plait returns it. */
static void check(plait_status status) {
  if (status == PLAIT_SUCCESS) return;
  fprintf(stderr, "%s\n", plait_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* Fills the halo of `p`. */
static void exchange(int n, int layers, double (*p)[n + 2][n + 2]) {
  const int size = (n + 2) * (n + 2);
  check(plait_send_recv(comm, p[layers], size, up, p[0], size, down, PLAIT_F64, stream, NULL));
  check(plait_send_recv(comm, p[1], size, down, p[layers + 1], size, up, PLAIT_F64, stream, NULL));
  check(plait_synchronize(comm, stream));
}

/* Sums over all ranks. */
static double sum_of_ranks(double mine) {
  double sum;
  check(plait_all_reduce(comm, &mine, &sum, 1, PLAIT_F64, PLAIT_SUM, stream, NULL));
  check(plait_synchronize(comm, stream));
  return sum;
}

/* The 7-point stencil is exact for cubic polynomials, so the discrete solution is this too. */
static double exact(double x, double y, double z) {
  return x * (1 - x) * y * (1 - y) * z * (1 - z * z);
}

static double minus_laplace_of_exact(double x, double y, double z) {
  return 2 * (x * (1 - x) + y * (1 - y)) * z * (1 - z * z) + 6 * z * x * (1 - x) * y * (1 - y);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 64;
  MPI_Init(&argc, &argv);
  plait_config config = PLAIT_CONFIG_INIT;
  config.backend = PLAIT_BACKEND_HOST; /* because the arrays are host memory */
  check(plait_comm_create(MPI_COMM_WORLD, &config, &comm));
  check(plait_stream_create(comm, &stream));
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (n < ranks) {
    if (rank == 0) fprintf(stderr, "%d layers are not enough for %d ranks\n", n, ranks);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (rank > 0) down = rank - 1;
  if (rank < ranks - 1) up = rank + 1;
  const int first = n * rank / ranks, layers = n * (rank + 1) / ranks - first;
  const double h = 1.0 / (n + 1);
  double(*u)[n + 2][n + 2] = calloc(layers + 2, sizeof *u);
  double(*r)[n + 2][n + 2] = calloc(layers + 2, sizeof *r);
  double(*p)[n + 2][n + 2] = calloc(layers + 2, sizeof *p);
  double(*q)[n + 2][n + 2] = calloc(layers + 2, sizeof *q);

  double sum = 0;
  for (int z = 1; z <= layers; ++z)
    for (int y = 1; y <= n; ++y)
      for (int x = 1; x <= n; ++x) {
        r[z][y][x] = h * h * minus_laplace_of_exact(x * h, y * h, (first + z) * h);
        p[z][y][x] = r[z][y][x];
        sum += r[z][y][x] * r[z][y][x];
      }
  double rr = sum_of_ranks(sum);
  exchange(n, layers, p); /* so that the ranks are connected before the clock starts */

  const double goal = tolerance * sqrt(rr);
  double residual = sqrt(rr);
  int iterations = 0;
  const double begin = MPI_Wtime();
  while (residual > goal && iterations < 20 * n) {
    exchange(n, layers, p);
    sum = 0;
    for (int z = 1; z <= layers; ++z)
      for (int y = 1; y <= n; ++y)
        for (int x = 1; x <= n; ++x) {
          q[z][y][x] = 6 * p[z][y][x] - p[z][y][x - 1] - p[z][y][x + 1] - p[z][y - 1][x] -
                       p[z][y + 1][x] - p[z - 1][y][x] - p[z + 1][y][x];
          sum += p[z][y][x] * q[z][y][x];
        }
    const double pq = sum_of_ranks(sum);
    const double alpha = pq > 0 ? rr / pq : 0; /* r may have become 0 */
    sum = 0;
    for (int z = 1; z <= layers; ++z)
      for (int y = 1; y <= n; ++y)
        for (int x = 1; x <= n; ++x) {
          u[z][y][x] += alpha * p[z][y][x];
          r[z][y][x] -= alpha * q[z][y][x];
          sum += r[z][y][x] * r[z][y][x];
        }
    const double rr_before = rr;
    rr = sum_of_ranks(sum);
    const double beta = rr_before > 0 ? rr / rr_before : 0;
    for (int z = 1; z <= layers; ++z)
      for (int y = 1; y <= n; ++y)
        for (int x = 1; x <= n; ++x) p[z][y][x] = r[z][y][x] + beta * p[z][y][x];
    if (++iterations % 10 == 0) {
      residual = sqrt(rr);
      if (rank == 0) printf("iteration %d: residual %.12e\n", iterations, residual);
    }
  }
  double seconds = MPI_Wtime() - begin;

  double error = 0;
  for (int z = 1; z <= layers; ++z)
    for (int y = 1; y <= n; ++y)
      for (int x = 1; x <= n; ++x)
        error = fmax(error, fabs(u[z][y][x] - exact(x * h, y * h, (first + z) * h)));
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%d ranks, error %.1e, %.1f us per iteration\n", ranks, error,
           seconds / iterations * 1e6);
  free(u);
  free(r);
  free(p);
  free(q);
  check(plait_stream_destroy(stream));
  check(plait_comm_destroy(comm));
  MPI_Finalize();
  return residual <= goal && error <= tolerance ? 0 : 1;
}
