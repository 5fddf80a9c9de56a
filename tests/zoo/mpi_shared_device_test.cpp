// PLAIT_SHARE_DEVICES: which ranks may share a GPU. To be run by mpirun with at least two ranks. No
// GPU is needed: the host target stands in for a node with one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <memory>
#include <optional>
#include <string>

#include "backends/backend.hpp"
#include "plait/mpi.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/mpi_main.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Every rank's device, whatever its number.
class OnlyDevice final : public HostAsCuda {
 public:
  explicit OnlyDevice(int ordinal) : HostAsCuda(ordinal, "0000:17:00.0") {}
};

const BackendRegistration registration = stand_in_for_cuda<OnlyDevice>();

CommunicatorOptions options_for(std::optional<BackendKind> target) {
  CommunicatorOptions options;
  options.backend = target;
  options.timeout = patience;
  return options;
}

class SharedDevice : public testing::Test {
 protected:
  void SetUp() override {
    int ranks = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks == 1) GTEST_SKIP() << "needs two ranks";
  }
};

TEST_F(SharedDevice, IsRefusedWithoutPermission) {
  const auto error =
      error_of([] { make_communicator(MPI_COMM_WORLD, options_for(BackendKind::cuda)); });
  expect_error(error, ErrorCode::unsupported,
               AllOf(HasSubstr("ranks 0 and 1 share cuda device 0000:17:00.0"),
                     HasSubstr("start at most one rank per GPU")));
}

TEST_F(SharedDevice, IsNotChosenWithoutPermission) {
  const ScopedEnvironment nothing("PLAIT_BACKEND", "");
  Communicator comm = make_communicator(MPI_COMM_WORLD, options_for(std::nullopt));
  EXPECT_EQ(backend_of(comm).info().backend, BackendKind::host);
}

TEST_F(SharedDevice, IsForProcessesThatMay) {
  const ScopedEnvironment nothing("PLAIT_BACKEND", "");
  const ScopedEnvironment permission("PLAIT_SHARE_DEVICES", "1");
  for (const auto target : {std::optional(BackendKind::cuda), std::optional<BackendKind>()}) {
    Communicator comm = make_communicator(MPI_COMM_WORLD, options_for(target));
    EXPECT_EQ(backend_of(comm).info().backend, BackendKind::cuda);
    Arena arena(comm);
    const Stream stream = comm.create_stream();
    EXPECT_TRUE(check(comm, arena, {.count = 5000, .threads = 8}, stream));
  }
}

/// In one process the default stream is the device's, and so all ranks' together.
TEST_F(SharedDevice, IsNotForThreads) {
  const ScopedEnvironment permission("PLAIT_SHARE_DEVICES", "1");
  const auto error =
      error_of([] { run_ranks(2, options_for(BackendKind::cuda), [](Communicator&, int) {}); });
  expect_error(
      error, ErrorCode::unsupported,
      HasSubstr("ranks 0 and 1 are threads of one process and share cuda device 0000:17:00.0"));
}

TEST_F(SharedDevice, PermissionIsTheSameOnAllRanks) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const ScopedEnvironment permission("PLAIT_SHARE_DEVICES", rank == 1 ? "1" : "0");
  const auto error =
      error_of([] { make_communicator(MPI_COMM_WORLD, options_for(BackendKind::cuda)); });
  expect_error(error, ErrorCode::mismatch,
               AllOf(HasSubstr("rank 1 has"), HasSubstr("PLAIT_SHARE_DEVICES=1")));
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) { return plait::test::run_tests_of_processes(argc, argv); }
