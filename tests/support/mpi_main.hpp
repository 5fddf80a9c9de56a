// `main` of test programs whose ranks are processes.
#pragma once
#include <gtest/gtest.h>
#include <mpi.h>

#include "support/run_tests.hpp"

namespace plait::test {

/// As `run_tests`, between MPI's initialization and its end.
inline int run_tests_of_processes(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
  testing::InitGoogleTest(&argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int status = run_tests(rank);
  MPI_Finalize();
  return status;
}

}  // namespace plait::test
