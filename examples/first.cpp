// The sum of an array over all ranks: build-host/bin/first, alone or under mpirun, torchrun or srun
#include <cstdio>
#include <iostream>
#include <plait/plait.hpp>
#include <vector>

int main() try {
  plait::Communicator comm = plait::make_world_communicator();
  std::puts(comm.describe().c_str());

  const std::size_t count = 1'000'003;
  plait::Buffer<float> x = comm.allocate<float>(count);
  plait::Stream stream = comm.create_stream();

  // Whole numbers, so that every order of adding them gives the same sum.
  const auto element = [](int rank, std::size_t i) { return float(rank + 1) + float(i % 10007); };
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = element(comm.rank(), i);
  comm.copy(x.data(), values.data(), count * sizeof(float), stream);
  comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum, stream);
  comm.copy(values.data(), x.data(), count * sizeof(float), stream);
  comm.synchronize(stream);

  std::printf("rank %d: %g\n", comm.rank(), values[0]);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = 0;
    for (int rank = 0; rank < comm.size(); ++rank) sum += element(rank, i);
    if (values[i] != sum) return 1;
  }
} catch (const plait::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
