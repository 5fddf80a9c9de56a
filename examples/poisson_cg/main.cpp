// A Poisson solver on several ranks, once per way to exchange data:
//   mpirun -n 2 build-host/bin/poisson_cg --n 64
#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "exchange_mpi.hpp"
#include "exchange_nccl.hpp"
#include "exchange_plait.hpp"
#include "options.hpp"
#include "parallel.hpp"
#include "plait/mpi.hpp"
#include "plait/plait.hpp"
#include "problem.hpp"
#include "solver.hpp"

namespace poisson {
namespace {

constexpr int iterations_per_batch = 20;  // between two checks of the residual

struct Result {
  int iterations;
  double residual;  // relative
  double error;     // the largest, over all ranks
  double seconds;   // on the slowest rank
};

double max_of_ranks(double mine) {
  // MPI_MAX may drop a NaN, so a second value tells whether any rank has one.
  double value[2] = {std::isnan(mine) ? 0.0 : mine, std::isnan(mine) ? 1.0 : 0.0};
  MPI_Allreduce(MPI_IN_PLACE, value, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return value[1] > 0 ? std::numeric_limits<double>::quiet_NaN() : value[0];
}

/// The 2-norm over all ranks.
double norm(const std::vector<double>& mine) {
  double squared = std::inner_product(mine.begin(), mine.end(), mine.begin(), 0.0);
  MPI_Allreduce(MPI_IN_PLACE, &squared, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return std::sqrt(squared);
}

Result solve(Device& device, const Slab& slab, Exchange& exchange, const Options& options) {
  const std::vector<double> b = right_hand_side(slab);
  Solver solver(device, slab, exchange, b);
  const auto iterate = [&] {
    for (int i = 0; i < iterations_per_batch; ++i) solver.iterate();
  };
  // The first calls come before the clock starts, because libraries set themselves up in them.
  solver.start();
  const double first = solver.residual(), expected = norm(b);
  // Conjugate gradients forgive wrong sums and only take longer, so this checks one sum itself.
  if (!(std::abs(first - expected) <= 1e-6 * expected))
    throw std::runtime_error("the norm of b is " + std::to_string(first) + ", not " +
                             std::to_string(expected));
  iterate();
  Batch batch(device, exchange.capturable(), iterate);
  batch.run();
  solver.start();
  device.synchronize();

  Result result{0, 1, 0, 0};
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  while (result.iterations < options.iterations && result.residual > options.tolerance) {
    batch.run();
    result.iterations += iterations_per_batch;
    result.residual = solver.residual() / first;
  }
  result.seconds = max_of_ranks(MPI_Wtime() - begin);
  result.error = max_of_ranks(max_error(slab, solver.solution()));
  return result;
}

class Program {
 public:
  Program(const Options& options, int rank, int ranks)
      : options_(options),
        rank_(rank),
        ranks_(ranks),
        slab_(options.n, rank, ranks),
        // Also chooses the rank's device for MPI and NCCL.
        comm_(plait::make_communicator(MPI_COMM_WORLD, communicator_options())),
        device_(slab_) {}

  /// True if all ways reached the solution.
  bool run() {
    if (rank_ == 0) {
      const std::string on(plait::name_of(target));
      std::printf("%d %s on %s, %d^3 points, tolerance %g\n", ranks_,
                  ranks_ == 1 ? "rank" : "ranks", on.c_str(), options_.n, options_.tolerance);
      std::printf("%-6s %10s %10s %12s\n", "with", "iterations", "max error", "iterations/s");
    }
    bool good = true;
    if (wants("plait")) good = report("plait", PlaitExchange(comm_, device_, slab_)) && good;
    if (wants("mpi")) good = report("mpi", MpiExchange(MPI_COMM_WORLD, device_, slab_)) && good;
    if (wants("nccl")) good = run_nccl() && good;
    return good;
  }

 private:
  bool wants(const char* way) const { return options_.with == "all" || options_.with == way; }

  bool run_nccl() {
    std::string why_not = "it needs CUDA";
    std::unique_ptr<Nccl> nccl;
    if constexpr (target == plait::BackendKind::cuda) nccl = Nccl::create(MPI_COMM_WORLD, why_not);
    if (nccl != nullptr) return report("nccl", NcclExchange(std::move(nccl), device_, slab_));
    if (options_.with == "nccl") throw UsageError("no NCCL: " + why_not);
    if (rank_ == 0) std::printf("%-6s none: %s\n", "nccl", why_not.c_str());
    return true;
  }

  bool report(const char* way, Exchange&& exchange) {
    const Result result = solve(device_, slab_, exchange, options_);
    if (rank_ == 0)
      std::printf("%-6s %10d %10.2g %12.1f\n", way, result.iterations, result.error,
                  result.iterations / result.seconds);
    // For this problem the error, also in the maximum norm, is at most a twentieth of the relative
    // residual: the norm of the Green's function in L2, 1/4, times the norm of f, 1/5.
    const bool converged = result.residual <= options_.tolerance,
               right = result.error <= options_.tolerance;
    if (rank_ == 0 && !converged)
      std::fprintf(stderr,
                   "poisson_cg: %s: the residual is %.2g after %d iterations, more than %g\n", way,
                   result.residual, result.iterations, options_.tolerance);
    if (rank_ == 0 && converged && !right)
      std::fprintf(stderr, "poisson_cg: %s: the largest error is %.2g, more than %g\n", way,
                   result.error, options_.tolerance);
    return converged && right;
  }

  Options options_;
  int rank_, ranks_;
  Slab slab_;
  plait::Communicator comm_;
  Device device_;
};

int run(int argc, char** argv) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  try {
    const Environment environment(argc, argv);
    const std::optional<Options> options = parse_options(argc, argv, rank == 0);
    return !options || Program(*options, rank, ranks).run() ? 0 : 1;
  } catch (const UsageError& error) {
    if (rank == 0) std::fprintf(stderr, "poisson_cg: %s\n", error.what());
  } catch (const std::exception& error) {
    // Other ranks may be waiting for this one.
    std::fprintf(stderr, "poisson_cg: rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return 1;
}

}  // namespace
}  // namespace poisson

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = poisson::run(argc, argv);
  MPI_Finalize();
  return code;
}
