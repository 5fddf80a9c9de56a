// Execution spaces of another target, and of the host with kernels that run late.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <functional>
#include <plait/kokkos.hpp>
#include <plait/plait.hpp>
#include <utility>

#include "errors.hpp"

namespace plait::test {
namespace {

/// The members that Kokkos requires of an execution space.
template <class Space>
struct StandIn {
  using execution_space = Space;
  using memory_space = Kokkos::HostSpace;
  using device_type = Kokkos::Device<Exec, Kokkos::HostSpace>;
  using size_type = std::size_t;
  using array_layout = Left;
  using scratch_memory_space = Exec::scratch_memory_space;
};

/// Looks like Kokkos::Cuda, which this program does not have.
struct OtherSpace : StandIn<OtherSpace> {
  static const char* name() { return "OtherSpace"; }
  CUstream_st* cuda_stream() const { return nullptr; }
  int cuda_device() const { return 3; }
  void fence() const {}
};

TEST(Errors, ASpaceOfAnotherTarget) {
  const Vector x("x", 5);
  EXPECT_EQ(error_of([&] { kokkos::all_reduce(OtherSpace(), comm(), x, ReduceOp::sum); }),
            from("all_reduce") +
                "view \"x\", in Host, is called with execution space OtherSpace, which is on cuda, "
                "but the communicator is on host");
  EXPECT_EQ(
      error_of([&] { kokkos::all_reduce(OtherSpace(), comm(), x, Vector("y", 5), ReduceOp::sum); }),
      from("all_reduce") +
          "src \"x\", in Host, is called with execution space OtherSpace, which is on cuda, but "
          "the communicator is on host");
  EXPECT_EQ(error_of([&] { kokkos::recv(OtherSpace(), comm(), x, comm().rank()); }),
            from("recv") +
                "dst \"x\", in Host, is called with execution space OtherSpace, which is on cuda, "
                "but the communicator is on host");
  EXPECT_EQ(error_of([&] { kokkos::barrier(OtherSpace(), comm()); }),
            from("barrier") +
                "it is called with execution space OtherSpace, which is on cuda, but the "
                "communicator is on host");
  const CommunicatorOptions options = kokkos::communicator_options(OtherSpace());
  EXPECT_EQ(options.backend, BackendKind::cuda);
  EXPECT_EQ(options.device, 3);
  EXPECT_EQ(kokkos::communicator_options(Exec()).backend, BackendKind::host);
}

/// A host space whose kernels run when they are waited for, as those of OpenMP or Threads may.
struct LateSpace : StandIn<LateSpace> {
  static const char* name() { return "LateSpace"; }
  void fence() const {
    if (pending) std::exchange(pending, nullptr)();
  }
  inline static std::function<void()> pending;
};

/// The input is there when a call begins, and the output when it returns.
TEST(HostSpaces, AreFencedBeforeACallThatIsWaitedFor) {
  const Vector x("x", 5), y("y", 5);
  const auto fill = [](const Vector& view, double value) {
    LateSpace::pending = [=] { Kokkos::deep_copy(view, value); };
  };
  fill(x, 1);
  kokkos::all_reduce(LateSpace(), comm(), x, y, ReduceOp::sum);
  EXPECT_EQ(y(4), ranks());
  fill(x, 2);
  {
    const Group group;
    kokkos::all_reduce(LateSpace(), comm(), x, y, ReduceOp::sum);
    EXPECT_EQ(x(4), 2) << "before the call was collected";
    EXPECT_EQ(y(4), ranks()) << "nothing runs before the end of the group";
  }
  kokkos::synchronize(LateSpace(), comm());
  EXPECT_EQ(y(4), 2 * ranks());
  fill(x, 3);
  kokkos::barrier(LateSpace(), comm());
  EXPECT_EQ(x(4), 3);
  fill(x, 4);
  kokkos::synchronize(LateSpace(), comm());
  EXPECT_EQ(x(4), 4);
}

}  // namespace
}  // namespace plait::test
