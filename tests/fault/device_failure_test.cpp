// A device that fails because a peer is gone, as those of ranks do that share a GPU through MPS:
// the error names the peer. The host target stands in for the GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "fault/deadline.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"
#include "support/sums.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* failure = "cudaStreamSynchronize: an illegal memory access was encountered";

/// Rank 0's device; those of the other ranks don't fail.
class Failing final : public HostAsCuda {
 public:
  explicit Failing(int ordinal) : HostAsCuda(ordinal, "failing " + std::to_string(ordinal)) {}

  static inline std::atomic<bool> launches_fail = false, waits_fail = false, numbers_fail = false;

  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    if (launches_fail && info_.ordinal == 0) throw Error(ErrorCode::backend, failure);
    HostAsCuda::launch(kernel, shape, args, bytes, watch, stream);
  }
  void synchronize(NativeStream stream) override {
    HostAsCuda::synchronize(stream);
    if (waits_fail && info_.ordinal == 0) throw Error(ErrorCode::backend, failure);
  }
  std::uint64_t memory_number(const void*, std::size_t) override {
    if (numbers_fail) throw Error(ErrorCode::backend, failure);
    return 1;
  }
};

const BackendRegistration registration = stand_in_for_cuda<Failing>();

class DeviceFailure : public testing::Test {
 protected:
  ~DeviceFailure() override {
    Failing::launches_fail = Failing::waits_fail = Failing::numbers_fail = false;
  }

  /// Rank 1 leaves if `leaves`. Then rank 0's device fails in what `body` does.
  template <class Body>
  static void run(bool leaves, std::atomic<bool>& fails, Body body) {
    CommunicatorOptions options = patient();
    options.backend = BackendKind::cuda;
    std::atomic<bool> is_over = false;
    run_ranks(2, options, [&](Communicator& comm, int rank) {
      comm.barrier();
      comm.synchronize();
      comm.bootstrap().barrier();
      if (rank == 1) {
        while (!leaves && !is_over) std::this_thread::yield();
        return;
      }
      fails = true;
      body(comm);
      fails = false;
      is_over = true;
    });
  }
};

const auto lost_with_the_device =
    AllOf(HasSubstr("rank 1 (process"), HasSubstr("which has destroyed the communicator"),
          HasSubstr("this process has lost its device with it, and can't use that any more: " +
                    std::string(failure)));

TEST_F(DeviceFailure, InAWaitNamesTheLostRank) {
  run(true, Failing::waits_fail, [](Communicator& comm) {
    comm.barrier();
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::rank_lost, lost_with_the_device);
  });
}

TEST_F(DeviceFailure, InACallNamesTheLostRank) {
  run(true, Failing::launches_fail, [](Communicator& comm) {
    expect_error(error_of([&] { comm.barrier(); }), ErrorCode::rank_lost, lost_with_the_device);
  });
}

TEST_F(DeviceFailure, WithoutALostRankIsTheDevices) {
  run(false, Failing::waits_fail, [](Communicator& comm) {
    expect_error(error_of([&] { comm.synchronize(); }), ErrorCode::backend,
                 AllOf(HasSubstr(failure), Not(HasSubstr("rank 1"))));
  });
}

/// A known call asks whether attached memory is still there.
TEST_F(DeviceFailure, InAKnownCall) {
  CommunicatorOptions options = patient();
  options.backend = BackendKind::cuda;
  run_ranks(2, options, [&](Communicator& comm, int) {
    alignas(16) float data[1000];
    const auto window = comm.attach(data, sizeof data);
    for (std::uint64_t call = 0; call < 4; ++call) expect_sum(comm, data, 1000, call);
    comm.bootstrap().barrier();
    Failing::numbers_fail = true;
    expect_throws(
        ErrorCode::backend,
        [&] { comm.all_reduce(data, data, 1000, DataType::f32, ReduceOp::sum); }, failure);
    comm.bootstrap().barrier();
  });
}

}  // namespace
}  // namespace plait::test
