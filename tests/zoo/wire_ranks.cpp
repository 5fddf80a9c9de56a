// wire_ranks ALGORITHM BYTES CALLS: one rank of several, which meet by the variables of torchrun.
// Makes all_reduce of BYTES bytes CALLS times and checks the last result. nodes_zoo_test.sh counts
// the bytes that it takes on the wire.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "plait/plait.hpp"

int main(int argc, char** argv) {
  using namespace plait;
  if (argc != 4) return 2;
  try {
    const std::size_t count = std::strtoul(argv[2], nullptr, 10) / sizeof(float);
    const int calls = std::atoi(argv[3]);
    CommunicatorOptions options;
    options.backend = BackendKind::host;
    Communicator comm = make_world_communicator(options);
    const auto send = comm.allocate<float>(count), recv = comm.allocate<float>(count);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = static_cast<float>(i % 1000) + static_cast<float>(comm.rank());
    comm.copy(send.data(), values.data(), count * sizeof(float));
    for (int call = 0; call < calls; ++call)
      comm.all_reduce(send.data(), recv.data(), count, DataType::f32, ReduceOp::sum, {},
                      {.algorithm = argv[1]});
    comm.copy(values.data(), recv.data(), count * sizeof(float));
    comm.synchronize();
    const int ranks = comm.size();
    for (std::size_t i = 0; i < count; ++i)
      if (values[i] != static_cast<float>(i % 1000) * static_cast<float>(ranks) +
                           static_cast<float>(ranks * (ranks - 1) / 2)) {
        std::printf("rank %d: element %zu is %g\n", comm.rank(), i, static_cast<double>(values[i]));
        return 1;
      }
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
