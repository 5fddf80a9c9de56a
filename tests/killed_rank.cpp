// A rank that is killed in the middle: the others must say who, long before any deadline, and end. Run by killed_rank_test.sh.
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "plait/plait.hpp"

int main(int argc, char** argv) {
  const std::string algorithm = argc > 1 ? argv[1] : "";
  plait::CommunicatorOptions options;
  options.timeout = std::chrono::seconds(0);  // none
  plait::Communicator comm = plait::Communicator::from_mpi(MPI_COMM_WORLD, options);
  const plait::Buffer<float> x = comm.allocate<float>(1000);
  const auto reduce = [&] {
    comm.all_reduce(x.data(), x.data(), x.size(), plait::DataType::f32, plait::ReduceOp::sum, {}, {.algorithm = algorithm});
  };
  try {
    for (int i = 0; i < 10; ++i) reduce();
    comm.synchronize();
    comm.bootstrap().barrier();
    if (comm.rank() == 1) std::raise(SIGKILL);
    reduce();
    comm.synchronize();
    std::printf("rank %d: no error\n", comm.rank());
    return 1;
  } catch (const plait::Error& error) {
    std::printf("rank %d: %s: %s\n", comm.rank(), std::string(name_of(error.code())).c_str(), error.what());
    std::fflush(stdout);
  }
  return 0;
}
