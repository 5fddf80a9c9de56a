// libplait-pmpi beside the MPI below it: MPI_ functions are Plait's here, PMPI_ functions MPI's. To
// be run by mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "interop/pmpi/random_call.hpp"
#include "support/data.hpp"

namespace plait::test {
namespace {

std::uint64_t calls() {
  const char* const wish = std::getenv("PLAIT_PMPI_TEST_CALLS");
  return wish == nullptr ? 3000 : std::strtoull(wish, nullptr, 10);
}

TEST(Pmpi, RandomCallsGiveWhatMpiGives) {
  const Layouts layouts;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm halves = MPI_COMM_NULL, duplicate = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &halves);
  MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
  const MPI_Comm all[] = {MPI_COMM_WORLD, halves, duplicate, MPI_COMM_SELF};
  for (std::uint64_t i = 0; i < calls() && !testing::Test::HasFatalFailure(); ++i)
    Draw(i, all[hash(i) % 4], layouts).run();
  MPI_Comm_free(&halves);
  MPI_Comm_free(&duplicate);
}

/// Rank 1 comes to the collective call when it has all messages, more than MPI has room for. So
/// rank 0 must send them while it waits in that call.
TEST(Pmpi, MpiProceedsWhilePlaitWaits) {
  constexpr std::size_t messages = 8192, ints = 768;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto value = [](std::size_t message, std::size_t i) {
    return static_cast<int>(hash(7, message, i));
  };
  int one = 1, sum = 0;
  ASSERT_EQ(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  Ints data(messages * ints);
  std::vector<MPI_Request> requests(messages, MPI_REQUEST_NULL);
  for (std::size_t m = 0; m < messages && rank == 0; ++m) {
    for (std::size_t i = 0; i < ints; ++i) data[m * ints + i] = value(m, i);
    MPI_Isend(&data[m * ints], ints, MPI_INT, 1, 0, MPI_COMM_WORLD, &requests[m]);
  }
  for (std::size_t m = 0; m < messages && rank == 1; ++m) {
    MPI_Recv(&data[m * ints], ints, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < ints; ++i) ASSERT_EQ(data[m * ints + i], value(m, i));
  }
  ASSERT_EQ(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  MPI_Waitall(static_cast<int>(messages), requests.data(), MPI_STATUSES_IGNORE);
}

/// What Plait can't do goes to MPI.
TEST(Pmpi, PassesOnWhatPlaitLacks) {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(
      [](void* in, void* inout, int* count, MPI_Datatype*) {
        for (int i = 0; i < *count; ++i)
          static_cast<int*>(inout)[i] += 10 * static_cast<int*>(in)[i];
      },
      0, &op);
  const int mine = rank + 1;
  int own_result = 0, result = 0;
  ASSERT_EQ(MPI_Allreduce(&mine, &own_result, 1, MPI_INT, op, MPI_COMM_WORLD), MPI_SUCCESS);
  ASSERT_EQ(PMPI_Allreduce(&mine, &result, 1, MPI_INT, op, MPI_COMM_WORLD), MPI_SUCCESS);
  EXPECT_EQ(own_result, result);
  MPI_Op_free(&op);
  const long double term = rank + 1;
  long double sum = 0;
  ASSERT_EQ(MPI_Allreduce(&term, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, MPI_COMM_WORLD), MPI_SUCCESS);
  EXPECT_EQ(sum, size * (size + 1) / 2);
}

/// Errors come by the communicator's error handler: MPI's own, and Plait's as one of MPI's classes.
TEST(Pmpi, ErrorsAreMpis) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  const auto class_of = [](int status) {
    int error_class = MPI_SUCCESS;
    MPI_Error_class(status, &error_class);
    return error_class;
  };
  int data[] = {1, 2, 3, 4};
  EXPECT_EQ(class_of(MPI_Bcast(data, 1, MPI_INT, 99, comm)), MPI_ERR_ROOT);
  const int status = MPI_Allreduce(data, data + 1, 2, MPI_INT, MPI_SUM, comm);  // they overlap
  EXPECT_EQ(class_of(status), MPI_ERR_ARG);
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  EXPECT_THAT(std::string(text, static_cast<std::size_t>(length)),
              testing::HasSubstr("all_reduce"));
  int sum = 0, size = 0;
  MPI_Comm_size(comm, &size);
  EXPECT_EQ(MPI_Allreduce(data, &sum, 1, MPI_INT, MPI_SUM, comm), MPI_SUCCESS);
  EXPECT_EQ(sum, size);
  MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  const int mine = RUN_ALL_TESTS();
  int worst = 0;
  PMPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return worst;
}
