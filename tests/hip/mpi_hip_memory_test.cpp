// Device memory of other processes on the HIP target: IPC handles with offsets, opened once, and
// given back when the last user is done. To be run by mpirun with any number of ranks; skipped
// without HIP devices.
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>

#include "backends/backend.hpp"
#include "backends/hip/api.hpp"
#include "backends/hip/ipc.hpp"
#include "plait/mpi.hpp"
#include "plait/plait.hpp"
#include "support/mpi_main.hpp"
#include "symm_mem/window.hpp"

namespace plait::hip {
namespace {

class HipMemory : public testing::Test {
 protected:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    if (device_count(BackendKind::hip) == 0) GTEST_SKIP() << why_no_device(BackendKind::hip);
    ASSERT_EQ(hipSetDevice(device()), hipSuccess);
  }

  /// Ranks may share a device: this is about processes.
  int device() const { return rank_ % device_count(BackendKind::hip); }
  static void barrier() { MPI_Barrier(MPI_COMM_WORLD); }
  static std::size_t free_bytes() {
    std::size_t free = 0, total = 0;
    EXPECT_EQ(hipMemGetInfo(&free, &total), hipSuccess);
    return free;
  }

  int rank_ = 0, ranks_ = 1;
};

TEST_F(HipMemory, TwoPointersIntoOneAllocationShareAMapping) {
  constexpr std::size_t bytes = std::size_t{4} << 20, offset = 4096 + 8;
  unsigned char* memory = nullptr;
  IpcAddress addresses[2] = {};
  if (rank_ == 0) {
    ASSERT_EQ(hipMalloc(reinterpret_cast<void**>(&memory), bytes), hipSuccess);
    ASSERT_EQ(hipMemset(memory, 11, bytes), hipSuccess);
    ASSERT_EQ(hipMemset(memory + offset, 22, 1), hipSuccess);
    ASSERT_EQ(hipDeviceSynchronize(), hipSuccess);
    addresses[0] = IpcAddress::of(memory);
    addresses[1] = IpcAddress::of(memory + offset);
    EXPECT_EQ(addresses[1].offset - addresses[0].offset, offset);
  }
  MPI_Bcast(addresses, sizeof addresses, MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank_ != 0) {
    auto whole = open_ipc(addresses[0], device());
    auto inside = open_ipc(addresses[1], device());
    EXPECT_EQ(inside.get() - whole.get(), static_cast<std::ptrdiff_t>(offset));
    EXPECT_EQ(open_ipc_count(), 1u);
    whole.reset();
    EXPECT_EQ(open_ipc_count(), 1u);
    unsigned char seen[2] = {};
    EXPECT_EQ(hipMemcpy(seen, inside.get() - 1, 2, hipMemcpyDefault), hipSuccess);
    EXPECT_EQ(seen[0], 11);
    EXPECT_EQ(seen[1], 22);
    inside.reset();
    EXPECT_EQ(open_ipc_count(), 0u);
  }
  barrier();
  if (rank_ == 0) {
    EXPECT_EQ(hipFree(memory), hipSuccess);
  }
}

TEST_F(HipMemory, AHandleOfNothingIsAnErrorThatNamesTheDevice) {
  IpcAddress nothing{};
  try {
    open_ipc(nothing, device());
    FAIL() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::no_peer_access);
    EXPECT_NE(std::string(error.what()).find("device"), std::string::npos);
  }
  EXPECT_EQ(open_ipc_count(), 0u);
}

TEST_F(HipMemory, MemoryThatAPeerStillUsesIsFreedOnceItIsDone) {
  if (ranks_ < 2 || device_count(BackendKind::hip) < ranks_)
    GTEST_SKIP() << "needs two devices, one a rank";
  constexpr std::size_t bytes = std::size_t{1} << 30;
  CommunicatorOptions options;
  options.backend = BackendKind::hip;
  Communicator comm = make_communicator(MPI_COMM_WORLD, options);
  const std::size_t before = free_bytes();
  {
    auto window = comm.allocate_bytes(bytes);
    EXPECT_LT(free_bytes() + bytes / 2, before);
    barrier();
    // Rank 0 lets go first: the peers still have it open, and may read it.
    if (rank_ == 0) window.reset();
    barrier();
    if (rank_ == 0) {
      EXPECT_LT(free_bytes() + bytes / 2, before) << "freed under an open handle";
    } else {
      float seen = 1;
      EXPECT_EQ(hipMemcpy(&seen, window->peer(0), sizeof seen, hipMemcpyDefault), hipSuccess);
      EXPECT_EQ(seen, 0);
    }
    barrier();
  }
  barrier();
  const auto another = comm.allocate_bytes(4);  // looks through what could not be freed then
  EXPECT_GT(free_bytes() + bytes / 2, before);
}

}  // namespace
}  // namespace plait::hip

int main(int argc, char** argv) { return plait::test::run_tests_of_processes(argc, argv); }
