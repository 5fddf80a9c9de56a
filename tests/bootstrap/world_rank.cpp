// One of the processes of a launcher: it meets the others, calls an all_reduce, and prints
// "rank 1 of 2 on node 0 of 1: right", or the error. launcher_test.sh starts it.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "plait/plait.hpp"
#include "support/data.hpp"

int main() {
  using namespace plait;
  try {
    Communicator comm = make_world_communicator({.backend = BackendKind::host});
    const auto number = [](int rank, std::size_t i) {
      return test::hash(1, static_cast<std::uint64_t>(rank), i);
    };
    std::vector<std::uint64_t> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = number(comm.rank(), i);
    comm.all_reduce(values.data(), values.data(), values.size(), DataType::u64, ReduceOp::sum);
    comm.synchronize();
    bool right = true;
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (int rank = 0; rank < comm.size(); ++rank) values[i] -= number(rank, i);
      right = right && values[i] == 0;
    }
    std::printf("rank %d of %d on node %d of %d: %s\n", comm.rank(), comm.size(),
                comm.bootstrap().node(), comm.bootstrap().nodes(), right ? "right" : "wrong");
    return right ? 0 : 1;
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
