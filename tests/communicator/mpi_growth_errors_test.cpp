// Calls for which scratch memory can't grow: a rank has none, is late or missing, aborts, or makes
// another call.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "communicator/mpi_growth.hpp"
#include "plait/error.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Growth, ThatFailsOnOneRankFailsOnAll) {
  Communicator comm = make(growing(std::chrono::seconds(0)));
  expect_sum(comm, "oneshot_ll");
  const NoMemory none(world_rank == 1);
  const auto error = error_of([&] { expect_sum(comm, "ring"); });
  expect_error(
      error, ErrorCode::out_of_memory,
      AllOf(StartsWith("scratch memory of ring, "), HasSubstr(" bytes: rank 1: the test has no ")));
  if (error) same_everywhere(error->what());
  const auto later = error_of([&] { expect_sum(comm, "oneshot_ll"); });
  ASSERT_TRUE(later.has_value());
  EXPECT_STREQ(later->what(), error->what()) << "the communicator is broken";
}

TEST_F(Growth, WaitsForARankThatIsLate) {
  Communicator comm = make();
  if (world_rank == world_size - 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  expect_sum(comm, "ring");
}

TEST_F(Growth, EndsAtTheDeadline) {
  Communicator comm = make(growing(std::chrono::milliseconds(500)));
  expect_sum(comm, "oneshot_ll");
  comm.bootstrap().barrier();
  std::optional<Error> error;
  if (world_rank == 1) error = heard(comm, std::chrono::seconds(5));
  else error = error_of([&] { expect_sum(comm, "ring"); });
  expect_error(error, ErrorCode::timeout,
               AllOf(HasSubstr("scratch memory of ring"), HasSubstr("rank 1 is missing, for 0.5 s"),
                     HasSubstr("rank 1 (process "),
                     HasSubstr("last call 1, all_reduce of 1000 f32 elements")));
}

TEST_F(Growth, EndsWithAnAbort) {
  for (const int aborting : {0, 1}) {  // a rank that waits, and one that the others wait for
    Communicator comm = make(growing(std::chrono::seconds(0)));
    std::thread other;
    if (world_rank == aborting)
      other = std::thread([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        comm.abort("enough");
      });
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Error> error;
    if (world_rank == 1) error = heard(comm);
    else error = error_of([&] { expect_sum(comm, "ring"); });
    EXPECT_LT(std::chrono::steady_clock::now() - begin, promised + std::chrono::milliseconds(100));
    expect_error(error, ErrorCode::aborted,
                 HasSubstr(fmt::format("rank {} has aborted the communicator: enough", aborting)));
    if (other.joinable()) other.join();
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

/// Whether the other call has all it needs, or needs other memory.
TEST_F(Growth, EndsWithADifferentCall) {
  for (const char* other : {"oneshot_ll", "twoshot_ll128", "tree"}) {
    Communicator comm = make(growing(std::chrono::seconds(0)));
    expect_sum(comm, "oneshot_ll");
    std::vector<float> x(1000);
    const auto error = error_of([&] {
      comm.all_reduce(x.data(), x.data(), x.size(), DataType::f32, ReduceOp::sum, {},
                      {.algorithm = world_rank == 1 ? other : "ring", .threads = 1});
      comm.synchronize();
    });
    expect_error(error, ErrorCode::mismatch,
                 AllOf(HasSubstr(other), HasSubstr("ring"), HasSubstr("call 2")));
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

}  // namespace
}  // namespace plait::test
