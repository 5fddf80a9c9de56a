// Under mpirun with any number of ranks: one Kokkos for all tests, and the output of rank 0 alone.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstdio>

#include "world.hpp"

namespace plait::test {
namespace {

/// Ranks other than 0 print failures alone.
class Failures final : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "rank %zu: %s:%d: %s\n", rank(), result.file_name(),
                   result.line_number(), result.message());
  }
};

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);  // else Plait would not end it once a test has broken a communicator
  testing::InitGoogleTest(&argc, argv);
  const Kokkos::ScopeGuard kokkos(argc, argv);
  if (plait::test::rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new plait::test::Failures);
  }
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
