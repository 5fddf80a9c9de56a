// wire_ranks ALGORITHM BYTES CALLS: one rank of several, which meet by the variables of torchrun.
// Makes all_reduce of BYTES bytes CALLS times and checks the last result. nodes_zoo_test.sh counts
// the bytes that it takes on the wire.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
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
    // Quantized sums are near 1000 times the number of ranks, to 8 bits or a 254th, and rounded
    // three times at most (nodes_test has their exact bound).
    const bool exact = !std::string_view(argv[1]).starts_with("quantized");
    const double tolerance = exact ? 0 : 3.0 * 1000 * ranks / 127;
    for (std::size_t i = 0; i < count; ++i) {
      const double wanted = static_cast<double>(i % 1000) * ranks + ranks * (ranks - 1) / 2.0;
      if (!(std::abs(static_cast<double>(values[i]) - wanted) <= tolerance)) {
        std::printf("rank %d: element %zu is %g\n", comm.rank(), i, static_cast<double>(values[i]));
        return 1;
      }
    }
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
  return 0;
}
