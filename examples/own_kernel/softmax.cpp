// The softmax of each row of the sum of all ranks' matrices, in one kernel.
#include "softmax.hpp"

#include <cmath>
#include <cstdio>
#include <plait/plait.hpp>
#include <vector>

int main() {
  plait::Communicator comm = plait::make_world_communicator();
  const std::size_t rows = 20, columns = 1000;
  const auto from = comm.allocate<float>(rows * columns), to = comm.allocate<float>(rows * columns);
  std::vector<float> values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i * i % 101) / static_cast<float>(comm.rank() + 10);
  comm.copy(from.data(), values.data(), values.size() * sizeof(float));
  plait::all_reduce_rows(comm, {}, from.data(), rows, columns, Softmax{to.data()});
  comm.copy(values.data(), to.data(), values.size() * sizeof(float));
  comm.synchronize();

  std::size_t wrong = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double sum = 0, expected[columns];
    for (std::size_t i = 0; i < columns; ++i) {
      double x = 0;
      const std::size_t at = row * columns + i;
      for (int rank = 0; rank < comm.size(); ++rank)
        x += static_cast<double>(at * at % 101) / (rank + 10);
      sum += expected[i] = std::exp(x);
    }
    for (std::size_t i = 0; i < columns; ++i)
      if (std::abs(values[row * columns + i] * sum / expected[i] - 1) > 1e-4) ++wrong;
  }
  std::printf("rank %d: %zu of %zu values are wrong\n", comm.rank(), wrong, values.size());
}
