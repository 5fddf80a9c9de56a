// Memory of every kind that CUDA has, attached by ranks that are processes: which kinds can be,
// what is said of the others, memory that was freed, and the time it takes. To be run by mpirun;
// skipped without devices.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plait/mpi.hpp"
#include "support/errors.hpp"
#include "support/mpi_main.hpp"
#include "support/ranks.hpp"
#include "support/sums.hpp"
#include "symm_mem/window.hpp"

namespace plait::test {
namespace {

constexpr std::size_t count = 100000, bytes = count * sizeof(float);

#define CUDA(...) ASSERT_EQ(__VA_ARGS__, cudaSuccess)

class CudaAttach : public testing::Test {
 protected:
  void SetUp() override {
    if (device_count(BackendKind::cuda) == 0) GTEST_SKIP() << why_no_device(BackendKind::cuda);
    comm_ = make_communicator(MPI_COMM_WORLD, test_options());
    if (comm().size() < 2) GTEST_SKIP() << "needs two ranks";
  }
  Communicator& comm() { return *comm_; }
  int device() { return backend_of(comm()).info().ordinal; }

  /// All-reduces in place at `memory`, two by algorithms that need symmetric memory.
  void expect_sums(float* memory) {
    for (const std::uint64_t call : {1, 2, 3, 4})
      expect_sum(comm(), memory, count, call,
                 {.algorithm = call == 1   ? "twoshot"
                               : call == 2 ? "copy_engine"
                                           : ""});
  }
  void expect_attached(void* memory, std::size_t shift) {
    auto* const at = reinterpret_cast<float*>(static_cast<std::byte*>(memory) + shift);
    const auto window = comm().attach(at, bytes);
    EXPECT_TRUE(comm().is_symmetric(at, bytes));
    expect_sums(at);
    comm().detach(window);
    EXPECT_FALSE(comm().is_symmetric(at, bytes));
  }
  std::size_t shift() { return 512 * static_cast<std::size_t>(comm().rank()) + 16; }

  std::optional<Communicator> comm_;
};

/// Windows hold flags and slots, so whoever polls them does so in its own memory; what the host
/// polls is the host's.
TEST_F(CudaAttach, IsPolledWhereItLies) {
  const auto kind_of = [](const void* pointer) {
    cudaPointerAttributes facts{};
    EXPECT_EQ(cudaPointerGetAttributes(&facts, pointer), cudaSuccess);
    return std::pair(facts.type, facts.device);
  };
  const std::vector<int> devices = comm().bootstrap().all_gather(device());
  const auto window = comm().allocate_bytes(bytes);
  for (int rank = 0; rank < comm().size(); ++rank)
    EXPECT_EQ(kind_of(window->peer(rank)),
              std::pair(cudaMemoryTypeDevice, devices[static_cast<std::size_t>(rank)]));
  void* const pinned = backend_of(comm()).allocate_pinned(64);
  EXPECT_EQ(kind_of(pinned).first, cudaMemoryTypeHost);
  backend_of(comm()).deallocate_pinned(pinned);
}

TEST_F(CudaAttach, Malloc) {
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes + 4096));
  expect_attached(memory, shift());
  CUDA(cudaFree(memory));
}

TEST_F(CudaAttach, PhysicalMemory) {
  const auto range = backend_of(comm()).reserve(1, bytes + 4096, 1);
  const UniqueFd descriptor = range->create_local(0);
  expect_attached(range->address(0), shift());
}

/// One rank's memory is of one kind, the next one's of another.
TEST_F(CudaAttach, MixedMemory) {
  const auto range = backend_of(comm()).reserve(1, bytes + 4096, 1);
  const UniqueFd descriptor = range->create_local(0);
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes + 4096));
  expect_attached(comm().rank() == 0 ? memory : range->address(0), shift());
  CUDA(cudaFree(memory));
}

TEST_F(CudaAttach, PoolsThatExport) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device();
  cudaMemPool_t pool = nullptr;
  CUDA(cudaMemPoolCreate(&pool, &properties));
  void* memory = nullptr;
  CUDA(cudaMallocFromPoolAsync(&memory, bytes + 4096, pool, nullptr));
  CUDA(cudaStreamSynchronize(nullptr));
  expect_attached(memory, shift());
  CUDA(cudaFreeAsync(memory, nullptr));
  CUDA(cudaStreamSynchronize(nullptr));
  CUDA(cudaMemPoolDestroy(pool));
}

TEST_F(CudaAttach, SaysWhyNot) {
  const auto expect = [&](void* memory, const char* why) {
    expect_invalid([&] { comm().attach(memory, bytes); }, "attach: rank 0", why);
  };
  void *managed = nullptr, *pooled = nullptr, *pinned = nullptr, *small = nullptr;
  CUDA(cudaMallocManaged(&managed, bytes));
  CUDA(cudaMallocAsync(&pooled, bytes, nullptr));
  CUDA(cudaMallocHost(&pinned, bytes));
  CUDA(cudaMalloc(&small, 1024));
  CUDA(cudaStreamSynchronize(nullptr));
  expect(managed, "managed memory");
  expect(pooled, "its pool does not export");
  expect(pinned, "no device memory");
  expect(small, "has 1024 bytes from there on");
  CUDA(cudaFree(managed));
  CUDA(cudaFreeAsync(pooled, nullptr));
  CUDA(cudaFreeHost(pinned));
  CUDA(cudaFree(small));
}

/// Freed without detach, and other memory at the address.
TEST_F(CudaAttach, FreedMemoryIsNoticed) {
  constexpr std::size_t large = std::size_t{64} << 20;
  void *memory = nullptr, *again = nullptr;
  CUDA(cudaMalloc(&memory, large));
  auto window = comm().attach(memory, large);
  expect_sums(static_cast<float*>(memory));
  MPI_Barrier(MPI_COMM_WORLD);
  CUDA(cudaFree(memory));
  CUDA(cudaMalloc(&again, large));
  int same = again == memory ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (same == 1)
    expect_invalid([&] { comm().all_reduce(memory, memory, count, DataType::f32, ReduceOp::sum); },
                   "freed since, without `detach`");
  const auto renewed = comm().attach(again, large);
  expect_sums(static_cast<float*>(again));
  window.reset();
  comm().detach(renewed);
  CUDA(cudaFree(again));
}

/// Of all kinds of captures, the one that refuses most: no thread of the process may allocate.
TEST_F(CudaAttach, BesideACapture) {
  void* memory = nullptr;
  CUDA(cudaMalloc(&memory, bytes));
  cudaStream_t stream = nullptr;
  CUDA(cudaStreamCreate(&stream));
  std::optional<Communicator> part, twin;
  std::shared_ptr<Window> window;
  CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const auto expect_capture = [&](const char* after) {
    cudaStreamCaptureStatus status{};
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess) << after;
    EXPECT_EQ(status, cudaStreamCaptureStatusActive) << after;
  };
  comm().all_reduce(memory, memory, count, DataType::f32, ReduceOp::max, stream);
  expect_capture("a call");
  part = comm().split(0, -comm().rank());
  expect_capture("split");
  twin = comm().duplicate();
  expect_capture("duplicate");
  window = twin->attach(memory, bytes);
  expect_capture("attach");
  cudaGraph_t graph = nullptr;
  CUDA(cudaStreamEndCapture(stream, &graph));
  expect_sum(*twin, static_cast<float*>(memory), count, 5);
  twin->detach(window);
  CUDA(cudaGraphDestroy(graph));
  CUDA(cudaStreamDestroy(stream));
  CUDA(cudaFree(memory));
}

TEST_F(CudaAttach, LeavesNothingAndIsFast) {
  const auto milliseconds = [&](const std::function<void()>& body) {
    MPI_Barrier(MPI_COMM_WORLD);
    const auto begin = std::chrono::steady_clock::now();
    body();
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  };
  constexpr std::size_t giga = std::size_t{1} << 30, small = std::size_t{4} << 20;
  void *large = nullptr, *allocated = nullptr;
  CUDA(cudaMalloc(&allocated, giga));
  const auto range = backend_of(comm()).reserve(1, giga, 1);
  const UniqueFd descriptor = range->create_local(0);
  std::vector<void*> tensors(100);
  for (void*& tensor : tensors) CUDA(cudaMalloc(&tensor, small));
  std::vector<double> attaching, detaching;
  const auto median = [](std::vector<double>& times) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                     times.end());
    return times[times.size() / 2];
  };
  const auto round = [&] {
    std::shared_ptr<Window> window;
    attaching.push_back(milliseconds([&] { window = comm().attach(large, giga); }));
    detaching.push_back(milliseconds([&] { comm().detach(window); }));
  };
  const auto print = [&](const char* kind) {
    if (comm().rank() == 0)
      fmt::print("1 GB of {}: attach {:.2f} ms, detach {:.2f}\n", kind, median(attaching),
                 median(detaching));
    attaching.clear();
    detaching.clear();
  };
  large = allocated;
  for (int i = 0; i < 20; ++i) round();
  print("cudaMalloc");
  large = range->address(0);
  for (int i = 0; i < 20; ++i) round();
  print("cuMemCreate");
  range->expect_peers(0);
  for (int i = 0; i < 20; ++i) round();
  print("cuMemCreate that expects peers, as ncclMemAlloc's");
  std::size_t before = 0, after = 0, total = 0;
  CUDA(cudaMemGetInfo(&before, &total));
  for (int i = 0; i < 1000; ++i) round();
  CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
  std::vector<std::shared_ptr<Window>> windows;
  const double all_attached = milliseconds([&] {
    for (void* tensor : tensors) windows.push_back(comm().attach(tensor, small));
  });
  const double all_detached = milliseconds([&] {
    for (const auto& window : windows) comm().detach(window);
  });
  print("the same, 1,000 times");
  if (comm().rank() == 0)
    fmt::print("100 x 4 MB: attach {:.1f} ms, detach {:.1f}\n", all_attached, all_detached);
  CUDA(cudaFree(allocated));
  for (void* tensor : tensors) CUDA(cudaFree(tensor));
}

}  // namespace
}  // namespace plait::test

int main(int argc, char** argv) {
  setenv("PLAIT_BACKEND", "cuda", 1);
  return plait::test::run_tests_of_processes(argc, argv);
}
