// A user's program with Plait and Kokkos: the mean of a field over all ranks, and its rows
// gathered, checked.
#include <Kokkos_Core.hpp>
#include <cstdio>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>

namespace {

int run() {
  using Exec = Kokkos::DefaultExecutionSpace;
  const Exec exec;
  plait::Communicator comm =
      plait::make_world_communicator(plait::kokkos::communicator_options(exec));
  const int n = comm.size(), rank = comm.rank(), rows = 10, columns = 7;

  const Kokkos::View<double**, Kokkos::LayoutRight> field("field", rows, columns),
      all("all", n * rows, columns);
  Kokkos::parallel_for(
      Kokkos::MDRangePolicy<Exec, Kokkos::Rank<2>>(exec, {0, 0}, {rows, columns}),
      KOKKOS_LAMBDA(int i, int j) { field(i, j) = rank * rows + i + 0.5 * j; });
  const Kokkos::View<double, Exec::memory_space> mean("mean");
  Kokkos::parallel_reduce(
      Kokkos::MDRangePolicy<Exec, Kokkos::Rank<2>>(exec, {0, 0}, {rows, columns}),
      KOKKOS_LAMBDA(int i, int j, double& sum) { sum += field(i, j) / (rows * columns); }, mean);
  plait::kokkos::all_reduce(exec, comm, mean, plait::ReduceOp::avg);
  plait::kokkos::all_gather(exec, comm, field, all);
  plait::kokkos::synchronize(exec, comm);

  const auto m = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), mean);
  const auto a = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), all);
  const double expected = 0.5 * (n * rows - 1) + 0.25 * (columns - 1);
  if (m() < expected - 1e-9 || m() > expected + 1e-9) {
    std::fprintf(stderr, "rank %d: the mean is %g, not %g\n", rank, m(), expected);
    return 1;
  }
  for (int i = 0; i < n * rows; ++i)
    for (int j = 0; j < columns; ++j)
      if (a(i, j) != i + 0.5 * j) {
        std::fprintf(stderr, "rank %d: element (%d, %d) is %g\n", rank, i, j, a(i, j));
        return 1;
      }
  std::printf("OK: Kokkos %d on %s, rank %d of %d\n", KOKKOS_VERSION, Exec::name(), rank, n);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  return run();
} catch (const plait::Error& error) {
  std::fprintf(stderr, "consumer_kokkos: %s\n", error.what());
  return 1;
}
