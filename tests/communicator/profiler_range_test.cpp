// PLAIT_PROFILER_RANGES: the ranges that a profiler sees. The host target with a profiler stands in
// for CUDA.
#include "communicator/observe/profiler_range.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/communicator_state.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::ElementsAre, testing::HasSubstr, testing::StartsWith;

/// Of one rank, which is a thread.
struct Profiler {
  std::vector<std::string> ranges;
  int open = 0, launches_outside = 0;
  bool refuses_launches = false;
};
thread_local Profiler profiler;

class Profiled final : public HostAsCuda {
 public:
  explicit Profiled(int ordinal) : HostAsCuda(ordinal, "profiled " + std::to_string(ordinal)) {}
  bool shows_profiler_ranges() override { return true; }
  void begin_profiler_range(const char* name) override {
    profiler.ranges.emplace_back(name);
    ++profiler.open;
  }
  void end_profiler_range() noexcept override { --profiler.open; }
  void launch(KernelHandle kernel, LaunchShape shape, const void* args, std::size_t bytes,
              const Watch& watch, NativeStream stream) override {
    if (profiler.open != 1) ++profiler.launches_outside;
    if (profiler.refuses_launches) throw Error(ErrorCode::backend, "no launch");
    HostAsCuda::launch(kernel, shape, args, bytes, watch, stream);
  }
};

const BackendRegistration registration = stand_in_for_cuda<Profiled>();

/// `body(state, rank)` for the inside of a communicator on each of two ranks.
void run_profiled(const char* setting, const std::function<void(CommunicatorState&, int)>& body) {
  const ScopedEnvironment ranges("PLAIT_PROFILER_RANGES", setting);
  with_bootstraps(2, [&](std::unique_ptr<Bootstrap> bootstrap, int rank) {
    CommunicatorState state(std::move(bootstrap), test_options({.backend = BackendKind::cuda}));
    profiler = {};
    body(state, rank);
    EXPECT_EQ(profiler.open, 0);
  });
}

void sum(CommunicatorState& state, std::vector<float>& data, StreamRef stream = {}) {
  const Call call{.type = DataType::f32, .count = data.size()};
  state.collectives.call({.call = call,
                          .send = data.data(),
                          .recv = data.data(),
                          .options = {.algorithm = "oneshot_ll"}},
                         stream);
}
void exchange(CommunicatorState& state, int peer, float* from, float* to) {
  const std::vector<MessageEnd> ends{{true, peer, from, 1}, {false, peer, to, 1}};
  const Call call{.collective = Collective::send_recv, .type = DataType::f32};
  state.messages.call("test", {.call = call, .ends = ends, .options = {}}, {});
}

TEST(ProfilerRanges, EachLaunchIsOneAlsoOfAKnownCall) {
  run_profiled("1", [](CommunicatorState& state, int rank) {
    std::vector<float> data(1000), other(2);
    for (int i = 0; i < 4; ++i) sum(state, data);
    for (int i = 0; i < 4; ++i) exchange(state, 1 - rank, &other[0], &other[1]);
    state.synchronize({});
    EXPECT_EQ(state.path.repeated_calls(), 4U);
    EXPECT_EQ(profiler.launches_outside, 0);
    const auto a_sum = "plait all_reduce f32 1000, oneshot_ll";
    const auto a_message = StartsWith("plait send_recv f32 1 and 1 more, ");
    EXPECT_THAT(profiler.ranges, ElementsAre(a_sum, a_sum, a_sum, a_sum, a_message, a_message,
                                             a_message, a_message));
  });
}

TEST(ProfilerRanges, OfAGroupAreThoseOfItsLaunches) {
  run_profiled("1", [](CommunicatorState& state, int) {
    std::vector<float> a(10), b(20), c(30);
    {
      const Group group;
      for (auto* data : {&a, &b, &c}) sum(state, *data);
      state.collectives.call({.call = {.collective = Collective::barrier}, .options = {}}, {});
    }
    state.synchronize({});
    EXPECT_THAT(profiler.ranges, ElementsAre("plait all_reduce f32 10 and 2 more, oneshot_ll",
                                             "plait barrier, barrier"));
  });
}

TEST(ProfilerRanges, OfCapturedCallsComeAtTheCapture) {
  run_profiled("1", [](CommunicatorState& state, int) {
    std::vector<float> data(10);
    Backend& backend = *state.resources.backend;
    const NativeStream stream = backend.create_stream();
    backend.begin_capture(stream);
    sum(state, data, static_cast<CUstream_st*>(stream));
    const auto graph = backend.end_capture(stream);
    for (int i = 0; i < 2; ++i) graph->launch(stream);
    backend.synchronize(stream);
    backend.destroy_stream(stream);
    EXPECT_EQ(profiler.ranges.size(), 1U);
  });
}

TEST(ProfilerRanges, EndWithALaunchThatThrows) {
  run_profiled("1", [](CommunicatorState& state, int) {
    std::vector<float> data(10);
    profiler.refuses_launches = true;
    expect_error(error_of([&] { sum(state, data); }), ErrorCode::backend, HasSubstr("no launch"));
    EXPECT_EQ(profiler.ranges.size(), 1U);
  });
}

TEST(ProfilerRanges, AreNotThereWithoutTheSetting) {
  run_profiled("0", [](CommunicatorState& state, int) {
    std::vector<float> data(10);
    sum(state, data);
    state.synchronize({});
    EXPECT_EQ(profiler.launches_outside, 1);
    EXPECT_EQ(profiler.ranges.size(), 0U);
  });
}

/// Their names are those in traces. This process has no own kernel.
TEST(ProfilerRanges, OwnKernelsAreNamedAsInTraces) {
  const ServedCalls calls{Collective::barrier, DataType::u8, 1, 0, own_kernel_name};
  EXPECT_EQ(name_of(calls), "plait another kernel");
}

}  // namespace
}  // namespace plait::test
