// A user's program with an installed Plait: the sum of one array over all ranks, checked.
// With MPI of its own, or without.
#include <cstddef>
#include <cstdio>
#include <plait/plait.hpp>
#include <vector>
#ifdef CONSUMER_CALLS_MPI
#include <plait/mpi.hpp>
#endif

int main() try {
#ifdef CONSUMER_CALLS_MPI
  plait::Communicator comm = plait::make_communicator(MPI_COMM_WORLD);
#else
  plait::Communicator comm = plait::make_world_communicator();
#endif
  const std::size_t count = 1001;
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(i + static_cast<std::size_t>(comm.rank()));

  plait::Buffer<float> x = comm.allocate<float>(count);
  plait::Stream stream = comm.create_stream();
  comm.copy(x.data(), values.data(), count * sizeof(float), stream);
  comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum, stream);
  comm.copy(values.data(), x.data(), count * sizeof(float), stream);
  comm.synchronize(stream);

  const int n = comm.size();
  for (std::size_t i = 0; i < count; ++i) {
    const float expected =
        static_cast<float>(n) * static_cast<float>(i) + static_cast<float>(n * (n - 1) / 2);
    if (values[i] != expected) {
      std::fprintf(stderr, "rank %d: element %zu is %g, not %g\n", comm.rank(), i, values[i],
                   expected);
      return 1;
    }
  }
  std::printf("OK: Plait " PLAIT_VERSION ", rank %d of %d\n", comm.rank(), n);
  return 0;
} catch (const plait::Error& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return 1;
}
