// The sum of one array over all ranks, every element checked: mpirun -n 2 build-host/bin/all_reduce
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "plait/plait.hpp"

namespace {
/// What `rank` contributes at `i`: small integers, so that their sum is exact in f32.
float contribution(int rank, std::size_t i) {
  const std::uint64_t hash = (i * 8 + static_cast<std::uint64_t>(rank) + 1) * 0x9e3779b97f4a7c15u;
  return static_cast<float>(hash >> 59) - 16;
}
}  // namespace

int main() try {
  plait::Communicator comm = plait::Communicator::from_mpi(MPI_COMM_WORLD);  // a GPU for each rank, else the host
  std::puts(comm.describe().c_str());

  const std::size_t count = 1'000'003;
  const std::size_t bytes = count * sizeof(float);
  plait::Buffer<float> x = comm.allocate<float>(count);
  plait::Stream stream = comm.create_stream();

  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = contribution(comm.rank(), i);
  comm.copy(x.data(), values.data(), bytes, stream);
  comm.all_reduce(x.span(), x.span(), plait::ReduceOp::sum, stream);
  comm.copy(values.data(), x.data(), bytes, stream);
  comm.synchronize(stream);

  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    float expected = 0;
    for (int rank = 0; rank < comm.size(); ++rank) expected += contribution(rank, i);
    if (values[i] != expected) ++wrong;
  }
  std::printf("rank %d: %zu of %zu elements are wrong\n", comm.rank(), wrong, count);
  return wrong == 0 ? 0 : 1;
} catch (const plait::Error& error) {
  std::fprintf(stderr, "all_reduce: %s\n", error.what());
  return 1;
}
