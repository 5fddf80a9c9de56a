// Each rank has a part of every row of a table. Where is each row's greatest value?
//   mpirun -n 2 build-host/bin/own_reduction
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <plait/plait.hpp>
#include <vector>

#include "argmax/argmax.hpp"

namespace {

constexpr std::uint32_t rows = 1000, columns = 512;  // columns per rank

float value(std::uint32_t row, std::uint32_t column) {
  return static_cast<float>((row * 7919 + column * 104729) % 10007);
}

/// The best of the columns [begin, end) of a row.
Candidate best(std::uint32_t row, std::uint32_t begin, std::uint32_t end) {
  Candidate best{value(row, begin), begin};
  for (std::uint32_t column = begin; column < end; ++column)
    best = Better()(best, {value(row, column), column});
  return best;
}

}  // namespace

int main() try {
  plait::Communicator comm = plait::make_world_communicator();
  const auto rank = static_cast<std::uint32_t>(comm.rank()),
             ranks = static_cast<std::uint32_t>(comm.size());

  std::vector<Candidate> mine(rows), all(rows);
  for (std::uint32_t row = 0; row < rows; ++row)
    mine[row] = best(row, rank * columns, (rank + 1) * columns);

  plait::Buffer<Candidate> x = comm.allocate<Candidate>(rows);
  comm.copy(x.data(), mine.data(), rows * sizeof(Candidate));
  argmax(comm, x.span(), x.span());
  comm.copy(all.data(), x.data(), rows * sizeof(Candidate));
  comm.synchronize();

  std::size_t wrong = 0;
  for (std::uint32_t row = 0; row < rows; ++row)
    wrong += all[row].index != best(row, 0, ranks * columns).index;
  std::printf("rank %d: row 0 has %g in column %u, %zu of %u rows are wrong\n", comm.rank(),
              all[0].value, all[0].index, wrong, rows);
  return wrong == 0 ? 0 : 1;
} catch (const plait::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
