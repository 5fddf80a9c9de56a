// Device groups that share devices and threads, move, are aborted or fail.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "algorithms/contract/collective_algorithm.hpp"
#include "groups/device_group_call.hpp"
#include "groups/device_groups.hpp"
#include "plait/device_group.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/no_threads.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

int current_device(Backend& backend) {
  const int current = backend.bind();
  backend.restore(current);
  return current;
}

TEST(DeviceGroup, WithoutThreads) {
  const std::optional<NoThreads> none(std::in_place);
  expect_refused(ErrorCode::backend, HasSubstr("can't start a thread for each device"),
                 [] { DeviceGroup::first(1, options()); });
}

TEST_P(DeviceGroups, BarriersHaveNoBuffers) {
  Gpus gpus(GetParam());
  std::vector<const void*> pointers(1);
  gpus.group.enqueue({.collective = Collective::barrier}, pointers, {});
  gpus.group.synchronize();
}

TEST_P(DeviceGroups, LeaveTheThreadItsDevice) {
  std::optional<Gpus> probe(std::in_place, GetParam());
  Backend& last = backend_of(probe->group.device(GetParam() - 1));
  const DeviceScope device(last);
  const int mine = current_device(last);
  const auto expect_same = [&](const char* after) {
    EXPECT_EQ(current_device(last), mine) << after;
  };
  {
    Gpus gpus(GetParam());
    expect_same("creation, allocation, streams");
    check_case(gpus.group, gpus.arena, sum_of(1000), gpus.streams);
    expect_same("a call");
    {
      const Group group;
      for (int i = 0; i < 50; ++i) gpus.group.barrier(gpus.streams);
    }
    expect_same("a group");
    gpus.group.synchronize(gpus.streams);
    static_cast<void>(error_of(
        [&] { gpus.group.all_reduce({nullptr}, {nullptr}, 1, DataType::f32, ReduceOp::sum); }));
    static_cast<void>(gpus.group.async_error());
    expect_same("an error");
  }
  expect_same("destruction");
}

TEST_P(DeviceGroups, TwoAtOnce) {
  Gpus a(GetParam());
  Gpus b(GetParam());
  GroupRun<std::int32_t> in_a(a.group, a.arena, sum_of(3000, 1)),
      in_b(b.group, b.arena, sum_of(100, 2));
  in_a.upload(a.streams);
  in_b.upload(b.streams);
  for (int i = 0; i < 20; ++i) {
    in_a.enqueue(a.streams);
    in_b.enqueue(b.streams);
  }
  {
    const Group group;
    in_a.enqueue(a.streams);
    in_b.enqueue(b.streams);
  }
  in_b.check(b.streams);
  in_a.check(a.streams);
}

/// A device is the process's, and so is its default stream.
TEST_P(DeviceGroups, TwoShareTheDefaultStreams) {
  DeviceGroup a = DeviceGroup::first(GetParam(), options()),
              b = DeviceGroup::first(GetParam(), options());
  std::atomic<int> finished = 0;
  for (int rank = 0; rank < a.size(); ++rank) {
    Backend& backend = backend_of(a.device(rank));
    const DeviceScope device(backend);
    backend.host_call(nullptr, [&] {
      std::this_thread::sleep_for(20ms);
      ++finished;
    });
  }
  b.barrier();
  b.synchronize();
  EXPECT_EQ(finished, a.size());
  a.synchronize();
}

TEST_P(DeviceGroups, UsedByAnotherThread) {
  Gpus gpus(GetParam());
  std::thread([&] { check_case(gpus.group, gpus.arena, sum_of(1000), gpus.streams); }).join();
}

TEST_P(DeviceGroups, Moved) {
  DeviceGroup first = DeviceGroup::first(GetParam(), options());
  DeviceGroup second = std::move(first);
  first = DeviceGroup::first(GetParam(), options());
  for (DeviceGroup* group : {&first, &second}) {
    GroupArena arena(*group);
    check_case(*group, arena, sum_of(500));
  }
  second = std::move(first);
  second.barrier();
  second.synchronize();
}

/// A call that only the first device gets waits for the others.
void call_on_rank_0(Gpus& gpus, GroupRun<std::int32_t>& run) {
  run.upload(gpus.streams);
  gpus.group.device(0).all_reduce(run.send[0], run.recv[0], 100, DataType::i32, ReduceOp::sum,
                                  gpus.streams[0]);
}

TEST_P(DeviceGroups, Aborted) {
  Gpus gpus(GetParam(), {.backend = target(), .timeout = 0s});
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  EXPECT_FALSE(gpus.group.async_error().has_value());
  call_on_rank_0(gpus, run);
  const auto start = Clock::now();
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    gpus.group.abort("enough");
  });
  if (GetParam() > 1)
    expect_throws(
        ErrorCode::aborted, [&] { gpus.group.synchronize(gpus.streams); }, "enough");
  other.join();
  EXPECT_LT(Clock::now() - start, promised);
  expect_error(gpus.group.async_error(), ErrorCode::aborted,
               AllOf(HasSubstr("rank 0 has aborted the communicator: enough"),
                     HasSubstr(std::string(name_of(target())) + " devices of ranks")));
  expect_throws(
      ErrorCode::aborted, [&] { run.enqueue(); }, "enough");
  expect_throws(
      ErrorCode::aborted, [&] { static_cast<void>(gpus.group.allocate<float>(1)); }, "enough");
  Gpus again(GetParam());
  check_case(again.group, again.arena, sum_of(1000), again.streams);
}

TEST_P(SeveralDevices, ADeadlineNamesTheDevice) {
  Gpus gpus(GetParam(),
            {.backend = target(),
             .timeout = 2s});  // also of making them, on a machine that has other things to do
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  call_on_rank_0(gpus, run);
  expect_throws(
      ErrorCode::timeout, [&] { gpus.group.synchronize(gpus.streams); }, "is missing",
      "devices of ranks 0 to");
}

/// Fails once all is checked, like a launch that the runtime refuses.
class FailsOnTheLastRank final : public CollectiveAlgorithm {
 public:
  StaticName name() const override { return "fails_on_the_last_rank"; }
  std::string_view summary() const override { return "nothing"; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override {
    return {{.blocks = 1, .threads = 1}};
  }
  double estimate(const Call&, const Topology&) const override { return 1e12; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext& context) const override {
    if (context.rank() == context.ranks() - 1)
      throw Error(ErrorCode::backend, "the launch was refused");
  }
};
const AlgorithmRegistration<FailsOnTheLastRank> registration;

TEST_P(DeviceGroups, AFailureAtTheLaunchIsNoHang) {
  const ScopedEnvironment setting("PLAIT_WORK_FIFO_BYTES", "4K");
  for (const int grouped : {0, 1, 1000}) {  // so many that the other devices wait for room
    Gpus gpus(GetParam(), {.backend = target(), .timeout = 0s});
    check_case(gpus.group, gpus.arena, sum_of(100));
    GroupCase c = sum_of(100);
    c.algorithm = "fails_on_the_last_rank";
    GroupRun<std::int32_t> run(gpus.group, gpus.arena, c);
    const auto fail = [&] {
      const Group group;
      for (int i = 0; i < grouped; ++i) {
        gpus.group.barrier();
        run.enqueue();
      }
    };
    const auto error = grouped != 0 ? error_of(fail) : error_of([&] { run.enqueue(); });
    expect_error(error, ErrorCode::backend, HasSubstr("the launch was refused"));
    if (GetParam() == 1) continue;
    if (grouped == 0) {
      EXPECT_THAT(error->what(), HasSubstr(" devices of ranks 0 to "));
    }
    expect_error(gpus.group.async_error(), ErrorCode::aborted, HasSubstr("could not be enqueued"));
    expect_throws(
        ErrorCode::aborted, [&] { gpus.group.synchronize(); }, "the launch was refused");
  }
}

}  // namespace
}  // namespace plait::test
