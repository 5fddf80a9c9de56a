// Floating-point exception flags: a driver that raises some in the caller's thread leaves no trace
// there. The host target stands in for a GPU whose driver does so.
#include <gtest/gtest.h>

#include <cfenv>
#include <optional>
#include <string>
#include <vector>

#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

/// Raises `inexact`. std::feraiseexcept would raise it in the x87 unit.
void raise_inexact() {
  volatile double x = 3;
  x = 1 / x;
}

class Raising final : public HostAsCuda {
 public:
  explicit Raising(int ordinal) : HostAsCuda(ordinal, "raising " + std::to_string(ordinal)) {}

  int bind() override {
    raise_inexact();
    return HostAsCuda::bind();
  }
  void restore(int previous) noexcept override {
    HostAsCuda::restore(previous);
    raise_inexact();
  }
  void* allocate(std::size_t bytes) override {
    raise_inexact();
    return HostAsCuda::allocate(bytes);
  }
  void deallocate(void* pointer) noexcept override {
    HostAsCuda::deallocate(pointer);
    raise_inexact();
  }
  void* allocate_pinned(std::size_t bytes) override {
    raise_inexact();
    return HostAsCuda::allocate_pinned(bytes);
  }
  void deallocate_pinned(void* pointer) noexcept override {
    HostAsCuda::deallocate_pinned(pointer);
    raise_inexact();
  }
  void copy(void* to, const void* from, std::size_t bytes, NativeStream stream) override {
    raise_inexact();
    HostAsCuda::copy(to, from, bytes, stream);
  }
  NativeStream create_stream() override {
    raise_inexact();
    return HostAsCuda::create_stream();
  }
  void destroy_stream(NativeStream stream) noexcept override {
    HostAsCuda::destroy_stream(stream);
    raise_inexact();
  }
  void synchronize(NativeStream stream) override {
    HostAsCuda::synchronize(stream);
    raise_inexact();
  }
  void synchronize_device() override {
    HostAsCuda::synchronize_device();
    raise_inexact();
  }
  bool is_capturing(NativeStream stream) override {
    raise_inexact();
    return HostAsCuda::is_capturing(stream);
  }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    HostAsCuda::launch(kernel, shape, args, bytes, watch, stream);
    raise_inexact();
  }
};

const BackendRegistration registration = stand_in_for_cuda<Raising>();

/// Runs `body` where one flag has been raised before, and expects that one after it.
template <class Body>
void keeps_flags(const char* what, Body body) {
  std::feclearexcept(FE_ALL_EXCEPT);
  std::feraiseexcept(FE_DIVBYZERO);
  body();
  EXPECT_EQ(std::fetestexcept(FE_ALL_EXCEPT), FE_DIVBYZERO) << what;
}

TEST(FloatFlags, OfTheCallerAreLeftAlone) {
  Raising(0).bind();
  EXPECT_NE(std::fetestexcept(FE_INEXACT), 0) << "the test shows nothing";
  CommunicatorOptions options = test_options();
  options.backend = BackendKind::cuda;
  run_ranks(2, options, [](Communicator& world, int rank) {
    std::optional<Communicator> comm;
    keeps_flags("duplicate", [&] { comm.emplace(world.duplicate()); });
    std::optional<Stream> stream;
    keeps_flags("create_stream", [&] { stream.emplace(comm->create_stream()); });
    std::vector<float> sums(1000), x(1000), y(1000);
    const auto sum = [&] {
      comm->all_reduce(sums.data(), sums.data(), sums.size(), DataType::f32, ReduceOp::sum,
                       *stream);
    };
    const auto exchange = [&] {
      comm->send_recv(x.data(), x.size(), 1 - rank, y.data(), y.size(), 1 - rank, DataType::f32,
                      *stream);
    };
    keeps_flags("all_reduce", sum);
    keeps_flags("send_recv", exchange);
    keeps_flags("barrier", [&] { comm->barrier(*stream); });
    keeps_flags("group", [&] {
      const Group group;
      sum();
      exchange();
    });
    keeps_flags("copy", [&] { comm->copy(y.data(), x.data(), sizeof(float), *stream); });
    keeps_flags("synchronize", [&] { comm->synchronize(*stream); });
    keeps_flags("reserve", [&] { comm->reserve(); });
    keeps_flags("symmetric memory", [&] { static_cast<void>(comm->allocate<float>(1000)); });
    keeps_flags("the end of a stream", [&] { stream.reset(); });
    keeps_flags("the end of a communicator", [&] { comm.reset(); });
  });
}

TEST(FloatFlags, OfTheCallerOfADeviceGroupAreLeftAlone) {
  std::optional<DeviceGroup> group;
  keeps_flags("creating a device group",
              [&] { group.emplace(DeviceGroup::first(2, {.backend = BackendKind::cuda})); });
  std::vector<float> x(1000), y(1000);
  keeps_flags("all_reduce", [&] {
    group->enqueue({.collective = Collective::all_reduce, .type = DataType::f32, .count = 1000},
                   {x.data(), y.data()}, {x.data(), y.data()});
  });
  keeps_flags("synchronize", [&] { group->synchronize(); });
  keeps_flags("the end of a device group", [&] { group.reset(); });
}

}  // namespace
}  // namespace plait::test
