// Kernels of a program's own, by ranks that are processes.
#include <gtest/gtest.h>

#include "communicator/own_kernels/checks.hpp"
#include "communicator/own_kernels/row_checks.hpp"
#include "plait/mpi.hpp"
#include "support/mpi_main.hpp"

namespace plait::test {
namespace {

void run(const std::function<void(Communicator&)>& check) {
  Communicator comm = make_communicator(MPI_COMM_WORLD, test_options());
  check(comm);
}

TEST(OwnKernelsOfProcesses, LoadPeersMemory) { run(check_shift); }
TEST(OwnKernelsOfProcesses, AreCaptured) { run(check_shift_in_graphs); }
TEST(OwnKernelsOfProcesses, StandInGroups) { run(check_shift_in_groups); }
TEST(OwnKernelsOfProcesses, SignalAndWait) { run(check_all_to_all); }
TEST(OwnKernelsOfProcesses, Sum) { run(check_sums); }
TEST(OwnKernelsOfProcesses, OfOneName) { run(check_names); }
TEST(RowsOfProcesses, GoToTheFunction) { run(check_rows); }
TEST(RowsOfProcesses, ByShippedFunctions) { run(check_row_functions); }
TEST(RowsOfProcesses, InGraphs) { run(check_rows_in_graphs); }

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) { return plait::test::run_tests_of_processes(argc, argv); }
