// Solves -Laplace u = f on the unit cube, with u = 0 on its faces, by conjugate gradients on n^3
// points; n is the program's argument. Each rank has some of the z layers. A field has one more
// point on every side: the faces of the cube, which stay 0, or the halo, a copy of the neighbour's
// nearest layer.
#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <plait/kokkos.hpp>
#include <plait/mpi.hpp>
#include <plait/plait.hpp>

namespace {

constexpr double tolerance = 1e-8;  // of the residual, relative to that of u = 0

using Exec = Kokkos::DefaultExecutionSpace;
using Field = Kokkos::View<double***, Kokkos::LayoutLeft>;  // x varies fastest
using Number = Kokkos::View<double>;  // on the device, where the kernels before and after are

// The exchange between the ranks.
struct Ranks {
  Exec exec;
  plait::Communicator comm =
      plait::make_communicator(MPI_COMM_WORLD, plait::kokkos::communicator_options(exec));
  int up = plait::proc_null, down = plait::proc_null;  // for ranks at a face of the cube

  static auto layer(const Field& field, int z) {
    return Kokkos::subview(field, Kokkos::ALL, Kokkos::ALL, z);
  }

  // Fills the halo of `p`.
  void exchange(const Field& p, int layers) {
    plait::kokkos::send_recv(exec, comm, layer(p, layers), up, layer(p, 0), down);
    plait::kokkos::send_recv(exec, comm, layer(p, 1), down, layer(p, layers + 1), up);
  }

  // Sums over all ranks, in place.
  void sum(const Number& number) {
    plait::kokkos::all_reduce(exec, comm, number, plait::ReduceOp::sum);
  }

  void wait() { plait::kokkos::synchronize(exec, comm); }
};

// The 7-point stencil is exact for cubic polynomials, so the discrete solution is this too.
KOKKOS_INLINE_FUNCTION double exact(double x, double y, double z) {
  return x * (1 - x) * y * (1 - y) * z * (1 - z * z);
}

KOKKOS_INLINE_FUNCTION double minus_laplace_of_exact(double x, double y, double z) {
  return 2 * (x * (1 - x) + y * (1 - y)) * z * (1 - z * z) + 6 * z * x * (1 - x) * y * (1 - y);
}

double on_host(const Number& number) {
  double value = 0;
  Kokkos::deep_copy(value, number);
  return value;
}

bool solve(int n, int rank, int size) {
  Ranks ranks;
  const Exec exec = ranks.exec;
  if (rank > 0) ranks.down = rank - 1;
  if (rank < size - 1) ranks.up = rank + 1;
  const int first = n * rank / size, layers = n * (rank + 1) / size - first;
  const double h = 1.0 / (n + 1);
  const Field u("u", n + 2, n + 2, layers + 2), r("r", n + 2, n + 2, layers + 2),
      p("p", n + 2, n + 2, layers + 2), q("q", n + 2, n + 2, layers + 2);
  const Number rr("rr"), rr_before("rr_before"), pq("pq"), alpha("alpha"), beta("beta");
  const Kokkos::MDRangePolicy<Exec, Kokkos::Rank<3, Kokkos::Iterate::Left, Kokkos::Iterate::Left>>
      points(exec, {1, 1, 1}, {n + 1, n + 1, layers + 1});
  const Kokkos::RangePolicy<Exec> once(exec, 0, 1);

  Kokkos::parallel_reduce(
      points,
      KOKKOS_LAMBDA(int x, int y, int z, double& sum) {
        r(x, y, z) = h * h * minus_laplace_of_exact(x * h, y * h, (first + z) * h);
        p(x, y, z) = r(x, y, z);
        sum += r(x, y, z) * r(x, y, z);
      },
      rr);
  ranks.sum(rr);
  ranks.exchange(p, layers);  // so that the ranks are connected before the clock starts

  double residual = std::sqrt(on_host(rr));
  const double goal = tolerance * residual;
  int iterations = 0;
  ranks.wait();
  const double begin = MPI_Wtime();
  while (residual > goal && iterations < 20 * n) {
    ranks.exchange(p, layers);
    Kokkos::parallel_reduce(
        points,
        KOKKOS_LAMBDA(int x, int y, int z, double& sum) {
          q(x, y, z) = 6 * p(x, y, z) - p(x - 1, y, z) - p(x + 1, y, z) - p(x, y - 1, z) -
                       p(x, y + 1, z) - p(x, y, z - 1) - p(x, y, z + 1);
          sum += p(x, y, z) * q(x, y, z);
        },
        pq);
    ranks.sum(pq);
    Kokkos::parallel_for(
        once, KOKKOS_LAMBDA(int) {
          alpha() = pq() > 0 ? rr() / pq() : 0;  // r may have become 0
          rr_before() = rr();
        });
    Kokkos::parallel_reduce(
        points,
        KOKKOS_LAMBDA(int x, int y, int z, double& sum) {
          u(x, y, z) += alpha() * p(x, y, z);
          r(x, y, z) -= alpha() * q(x, y, z);
          sum += r(x, y, z) * r(x, y, z);
        },
        rr);
    ranks.sum(rr);
    Kokkos::parallel_for(
        once, KOKKOS_LAMBDA(int) { beta() = rr_before() > 0 ? rr() / rr_before() : 0; });
    Kokkos::parallel_for(
        points,
        KOKKOS_LAMBDA(int x, int y, int z) { p(x, y, z) = r(x, y, z) + beta() * p(x, y, z); });
    if (++iterations % 10 == 0) {
      residual = std::sqrt(on_host(rr));
      if (rank == 0) std::printf("iteration %d: residual %.12e\n", iterations, residual);
    }
  }
  ranks.wait();
  double seconds = MPI_Wtime() - begin;

  double error = 0;
  Kokkos::parallel_reduce(
      points,
      KOKKOS_LAMBDA(int x, int y, int z, double& largest) {
        const double here = std::abs(u(x, y, z) - exact(x * h, y * h, (first + z) * h));
        if (here > largest) largest = here;
      },
      Kokkos::Max<double>(error));
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &error, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("%d ranks, error %.1e, %.1f us per iteration\n", size, error,
                seconds / iterations * 1e6);
  return residual <= goal && error <= tolerance;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  const int n = argc > 1 ? std::atoi(argv[1]) : 64;
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (n < size) {
    if (rank == 0) std::fprintf(stderr, "%d layers are not enough for %d ranks\n", n, size);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const bool right = solve(n, rank, size);
  Kokkos::finalize();
  MPI_Finalize();
  return right ? 0 : 1;
}
