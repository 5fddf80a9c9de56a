// Calls on a device group that are collected in a group, captured in a graph, or checked.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "groups/device_group_call.hpp"
#include "groups/device_groups.hpp"
#include "plait/device_group.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Messages of 16 elements in symmetric memory, each rank's number plus the message's.
class Small {
 public:
  Small(DeviceGroup& gpus, std::size_t messages)
      : gpus_(gpus), messages_(messages), x_(gpus.allocate<std::int64_t>(messages * 16)) {
    fill();
  }
  void fill() {
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      std::vector<std::int64_t> values(messages_ * 16);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = rank + static_cast<std::int64_t>(i / 16);
      gpus_.device(rank).copy(x_[static_cast<std::size_t>(rank)].data(), values.data(),
                              values.size() * sizeof values[0]);
      gpus_.device(rank).synchronize();
    }
  }
  void call(std::size_t message, DeviceGroup::Streams streams = {}) {
    std::vector<std::span<std::int64_t>> spans;
    for (const auto& buffer : x_) spans.push_back(buffer.span().subspan(message * 16, 16));
    gpus_.all_reduce(spans, spans, ReduceOp::sum, streams, {.algorithm = "oneshot_ll"});
  }
  void* data() const { return x_[0].data(); }
  /// `times`: how often each message was reduced in place.
  void check(DeviceGroup::Streams streams = {}, int times = 1) {
    gpus_.synchronize(streams);
    const std::int64_t n = gpus_.size();
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      std::vector<std::int64_t> values(messages_ * 16);
      gpus_.device(rank).copy(values.data(), x_[static_cast<std::size_t>(rank)].data(),
                              values.size() * sizeof values[0]);
      gpus_.device(rank).synchronize();
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t wanted = times == 0 ? rank + static_cast<std::int64_t>(i / 16)
                                         : n * (n - 1) / 2 + n * static_cast<std::int64_t>(i / 16);
        for (int again = 1; again < times; ++again) wanted *= n;
        ASSERT_EQ(values[i], wanted) << "rank " << rank << ", message " << i / 16;
      }
    }
  }

 private:
  DeviceGroup& gpus_;
  std::size_t messages_;
  std::vector<Buffer<std::int64_t>> x_;
};

TEST_P(DeviceGroups, AGroupOfCallsIsOneLaunchPerDevice) {
  Gpus gpus(GetParam());
  Small small(gpus.group, 30);
  const auto before = gpus.statistics(GetParam() - 1);
  {
    const Group group;
    for (std::size_t m = 0; m < 30; ++m) small.call(m, gpus.streams);
    EXPECT_EQ(gpus.statistics(GetParam() - 1).calls, before.calls);
  }
  const auto after = gpus.statistics(GetParam() - 1);
  EXPECT_EQ(after.calls - before.calls, 30u);
  EXPECT_EQ(after.launches - before.launches, 1u);
  small.check(gpus.streams);
}

/// More calls than the work FIFO holds: enqueueing on device 0 must not wait for what device 1 has
/// not been given.
TEST_P(DeviceGroups, AGroupLongerThanTheWorkFifo) {
  const ScopedEnvironment fifo("PLAIT_WORK_FIFO_BYTES", "4096");
  Gpus gpus(GetParam());
  Small small(gpus.group, 500);
  {
    const Group group;
    for (std::size_t m = 0; m < 500; ++m) small.call(m, gpus.streams);
  }
  small.check(gpus.streams);
  EXPECT_GT(gpus.statistics().in_fifo.launches, 1u);
}

TEST_P(SeveralDevices, CallsOfAGroupThatOverlapOnTwoDevices) {
  Gpus gpus(GetParam());
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  run.upload();
  gpus.group.synchronize();
  const auto before = gpus.statistics().calls;
  // The first device's result is read on the last one.
  const auto call_twice = [&](bool with_barrier) {
    const Group group;
    run.enqueue();
    if (with_barrier) gpus.group.barrier();
    auto send = run.send;
    send.back() = run.recv[0];
    std::vector<void*> elsewhere;
    for (const auto& array : gpus.arena.send)
      elsewhere.push_back(static_cast<std::byte*>(array->device()) + 4096);
    gpus.group.all_reduce(send, elsewhere, 100, DataType::i32, ReduceOp::sum);
  };
  expect_refused(ErrorCode::invalid_argument,
                 HasSubstr(fmt::format("group: call 1, all_reduce on rank 0, and call 2, "
                                       "all_reduce on rank {}, use the same memory",
                                       GetParam() - 1)),
                 [&] { call_twice(false); });
  EXPECT_EQ(gpus.statistics().calls, before);
  if (target() != BackendKind::host) return;  // a GPU may not reach the memory of another one
  call_twice(true);                           // which orders all devices
  gpus.group.synchronize();
  EXPECT_EQ(gpus.statistics().calls, before + 3);
}

TEST_P(DeviceGroups, ABadCallOfAGroupEnqueuesNothing) {
  Gpus gpus(GetParam());
  Small small(gpus.group, 3);
  const auto calls = gpus.statistics().calls;
  group_start();
  small.call(0);
  auto wrong = std::vector<void*>(static_cast<std::size_t>(GetParam() + 1));
  EXPECT_NO_THROW(gpus.group.all_reduce(wrong, wrong, 5, DataType::f32, ReduceOp::sum));
  small.call(1);
  expect_refused(ErrorCode::invalid_argument,
                 AllOf(HasSubstr("group: call 2: all_reduce: "),
                       HasSubstr("nothing of the group was enqueued")),
                 [] { group_end(); });
  EXPECT_EQ(gpus.statistics().calls, calls);
  // The last device's pointer alone is null, so the others have been given the call by then.
  group_start();
  std::vector<void*> null(static_cast<std::size_t>(GetParam()), small.data());
  null.back() = nullptr;
  EXPECT_NO_THROW(gpus.group.broadcast(null, null, 5, DataType::i64, 0));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("group: call 1: broadcast: "),
                 [] { group_end(); });
  small.check({}, 0);
  small.call(0);
  small.call(1);
  small.call(2);
  small.check();
}

TEST_P(DeviceGroups, DestroyedWithinAGroup) {
  std::optional<Gpus> gpus(GetParam());
  group_start();
  gpus->group.barrier();
  testing::internal::CaptureStderr();
  gpus.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("a device group is destroyed with calls in a group that has not ended"));
  expect_refused(ErrorCode::invalid_argument,
                 HasSubstr("a communicator with calls in it was destroyed"), [] { group_end(); });
}

TEST_P(DeviceGroups, Captured) {
  const int n = GetParam();
  Gpus gpus(n);
  Small small(gpus.group, 40);
  const auto backend = [&](int rank) -> Backend& { return backend_of(gpus.group.device(rank)); };
  const auto stream = [&](int rank) {
    return gpus.streams[static_cast<std::size_t>(rank)].native();
  };
  const auto on = [&](int rank, const auto& body) {
    const DeviceScope device(backend(rank));
    return body(backend(rank));
  };
  for (int times = 0; times < 3; ++times) gpus.group.barrier(gpus.streams);  // known from now on
  if (n > 1) {
    on(n - 1, [&](Backend& b) { b.begin_capture(stream(n - 1)); });
    const auto calls = gpus.statistics().calls;
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr("all_reduce: stream "), HasSubstr("is being captured"),
                         HasSubstr("a call is captured wholly or not at all")),
                   [&] { small.call(0, gpus.streams); });
    expect_refused(ErrorCode::invalid_argument, HasSubstr("barrier: stream "),
                   [&] { gpus.group.barrier(gpus.streams); });
    static_cast<void>(on(n - 1, [&](Backend& b) { return b.end_capture(stream(n - 1)); }));
    EXPECT_EQ(gpus.statistics().calls, calls);
  }
  for (int rank = 0; rank < n; ++rank) on(rank, [&](Backend& b) { b.begin_capture(stream(rank)); });
  small.call(0, gpus.streams);
  gpus.group.barrier(gpus.streams);
  {
    const Group group;
    for (std::size_t m = 1; m < 40; ++m) small.call(m, gpus.streams);
  }
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int rank = 0; rank < n; ++rank)
    graphs.push_back(on(rank, [&](Backend& b) { return b.end_capture(stream(rank)); }));
  small.check(gpus.streams, 0);
  for (int times = 1; times <= 3; ++times) {
    for (int rank = 0; rank < n; ++rank)
      on(rank, [&](Backend&) { graphs[static_cast<std::size_t>(rank)]->launch(stream(rank)); });
    small.check(gpus.streams, times);
  }
}

/// PLAIT_CHECK compares calls between ranks, which then have to come together.
TEST_P(DeviceGroups, CheckedCalls) {
  const ScopedEnvironment check("PLAIT_CHECK", "1");
  Gpus gpus(GetParam());
  for (const Collective collective : collectives)
    for (int way = 0; way < 4; ++way)
      check_case(gpus.group, gpus.arena,
                 {.call = {.collective = collective,
                           .type = DataType::f32,
                           .count = 100,
                           .root = GetParam() - 1},
                  .in_place = (way & 1) != 0,
                  .symmetric = (way & 2) != 0},
                 gpus.streams);
  Small small(gpus.group, 3);
  {
    const Group group;
    for (std::size_t m = 0; m < 3; ++m) small.call(m);
  }
  small.check();
  auto null = std::vector<void*>(static_cast<std::size_t>(GetParam()));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("send is null"),
                 [&] { gpus.group.all_reduce(null, null, 5, DataType::f32, ReduceOp::sum); });
  check_case(gpus.group, gpus.arena, sum_of(10));
  // Wrong on the last device alone, and in a group.
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(10));
  auto recv = run.recv;
  recv.back() = nullptr;
  for (const bool grouped : {false, true}) {
    expect_refused(ErrorCode::invalid_argument, HasSubstr("recv is null"), [&] {
      std::optional<Group> group;
      if (grouped) group.emplace();
      gpus.group.all_reduce(run.send, recv, 10, DataType::i32, ReduceOp::sum);
      if (grouped) group->end();
    });
    check_case(gpus.group, gpus.arena, sum_of(10));
  }
}

}  // namespace
}  // namespace plait::test
