// The sum of an array over all ranks: mpirun -n 2 build-host/bin/first
#include <algorithm>
#include <cstdio>
#include <plait/mpi.hpp>
#include <plait/plait.hpp>
#include <vector>

int main() try {
  plait::Communicator comm = plait::make_communicator(MPI_COMM_WORLD);
  std::puts(comm.describe().c_str());

  const std::size_t count = 1'000'003;
  plait::Buffer<float> x = comm.allocate<float>(count);
  plait::Stream stream = comm.create_stream();

  std::vector<float> values(count, static_cast<float>(comm.rank() + 1));
  comm.copy(x.data(), values.data(), count * sizeof(float), stream);
  comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum, stream);
  comm.copy(values.data(), x.data(), count * sizeof(float), stream);
  comm.synchronize(stream);

  std::printf("rank %d: %g\n", comm.rank(), values[0]);
  const auto ranks = static_cast<float>(comm.size());
  return std::all_of(values.begin(), values.end(),
                     [&](float value) { return value == ranks * (ranks + 1) / 2; })
             ? 0
             : 1;
} catch (const plait::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
