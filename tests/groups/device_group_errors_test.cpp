// Device groups and their calls that are refused: in one sentence, before any device gets the call.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/contract/collectives.hpp"
#include "groups/device_group_call.hpp"
#include "groups/device_groups.hpp"
#include "plait/device_group.hpp"
#include "support/errors.hpp"
#include "support/mistakes.hpp"

namespace plait::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(DeviceList, IsChecked) {
  const auto make = [](const std::vector<int>& devices) {
    return [=] { DeviceGroup(devices, options()); };
  };
  const std::string kind(name_of(target()));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("device group: no device was named"),
                 make({}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr(kind + " device 0 is named twice"),
                 make({0, 0}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("device group: -1 is no device"),
                 make({-1, 0}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("0 devices, but at least 1"),
                 [] { DeviceGroup::first(0, options()); });
  if (target() != BackendKind::host)
    expect_refused(ErrorCode::invalid_argument,
                   HasSubstr(kind + " device 4711 does not exist, there are"), make({0, 4711}));
  for (const BackendKind other : {BackendKind::cuda, BackendKind::hip})
    if (device_count(other) == 0)
      expect_refused(ErrorCode::unsupported, HasSubstr(std::string(name_of(other))),
                     [&] { DeviceGroup({0}, {.backend = other}); });
}

TEST(DeviceList, GoesWithTheGroup) {
  DeviceGroup group({0}, options());
  const DeviceGroup moved = std::move(group);
  const auto refused = [](const std::string& call, const std::function<void()>& body) {
    expect_refused(ErrorCode::invalid_argument,
                   HasSubstr(call + ": this device group was moved from"), body);
  };
  // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move): that is what is asked about
  refused("size", [&] { group.size(); });
  refused("barrier", [&] { group.barrier(); });
  refused("synchronize", [&] { group.synchronize(); });
  refused("allocate_bytes", [&] { group.allocate<float>(1); });
  refused("create_streams", [&] { group.create_streams(); });
  refused("describe", [&] { group.describe(); });
  refused("device", [&] { group.device(0); });
  // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
}

TEST(DeviceList, IsTheOrderOfTheRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const DeviceGroup group({1, 0}, options());
  EXPECT_EQ(group.size(), 2);
  EXPECT_EQ(group.backend_kind(), target());
  EXPECT_EQ(backend_of(group.device(0)).info().ordinal, 1);
  EXPECT_EQ(backend_of(group.device(1)).info().ordinal, 0);
  EXPECT_THAT(group.describe(),
              AllOf(HasSubstr(fmt::format("rank 0 of 2: {} device 1", name_of(target()))),
                    HasSubstr("\nrank 1 of 2: ")));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("rank 2 is none of the ranks 0 to 1"),
                 [&] { group.device(2); });
}

TEST_P(DeviceGroups, BadCallsEnqueueNothing) {
  const int n = GetParam(), last = n - 1;
  Gpus gpus(n);
  DeviceGroup& group = gpus.group;
  GroupRun<std::int32_t> run(group, gpus.arena, sum_of(100));
  run.upload();
  group.synchronize();
  const auto before = gpus.statistics(), before_last = gpus.statistics(last);
  const std::string device = fmt::format("(rank {}: {} device {})", last, name_of(target()), last);
  const auto all_reduce = [&](DeviceGroup::Inputs send, DeviceGroup::Outputs recv,
                              std::size_t count = 100, DeviceGroup::Streams streams = {},
                              const CallOptions& call = {}) {
    group.all_reduce(send, recv, count, DataType::i32, ReduceOp::sum, streams, call);
  };
  const auto refused =
      [&](const testing::Matcher<std::string>& message, const std::function<void()>& call,
          ErrorCode code = ErrorCode::invalid_argument) { expect_refused(code, message, call); };

  auto fewer = run.send;
  fewer.pop_back();
  refused(HasSubstr(fmt::format("all_reduce: {} send buffers for {} devices", last, n)),
          [&] { all_reduce(fewer, run.recv); });
  auto more = run.recv;
  more.push_back(more[0]);
  refused(HasSubstr(fmt::format("all_reduce: {} recv buffers for {} devices", n + 1, n)),
          [&] { all_reduce(run.send, more); });
  std::vector<StreamRef> streams(static_cast<std::size_t>(n + 1));
  refused(HasSubstr(fmt::format("{} streams for {} devices", n + 1, n)),
          [&] { all_reduce(run.send, run.recv, 100, streams); });
  refused(HasSubstr("streams for"), [&] { group.synchronize(streams); });
  if (n > 1) {
    streams.assign(static_cast<std::size_t>(n), gpus.streams[0]);
    refused(HasSubstr("all_reduce: ranks 0 and 1 have the same stream"),
            [&] { all_reduce(run.send, run.recv, 100, streams); });
  }
  refused(
      HasSubstr("twoshot"),
      [&] { all_reduce(run.send, run.recv, 100, {}, {.algorithm = "twoshot"}); },
      ErrorCode::unsupported);
  refused(HasSubstr("42 is no collective"),
          [&] { group.enqueue({.collective = static_cast<Collective>(42)}, run.send, run.recv); });
  refused(HasSubstr("overflow"), [&] {
    static_cast<void>(group.allocate<double>(std::numeric_limits<std::size_t>::max() / 2));
  });
  // Spans that fit each other, but not those of other devices.
  std::vector<std::span<const std::int32_t>> send;
  std::vector<std::span<std::int32_t>> recv;
  for (std::size_t rank = 0; rank < run.send.size(); ++rank) {
    send.emplace_back(static_cast<const std::int32_t*>(run.send[rank]), 100);
    recv.emplace_back(static_cast<std::int32_t*>(run.recv[rank]), 100);
  }
  send.back() = send.back().first(99);
  recv.back() = recv.back().first(99);
  if (n > 1)
    refused(
        AllOf(HasSubstr("send has 99 elements, recv 99: with blocks of 100"), HasSubstr(device)),
        [&] { group.all_reduce(send, recv, ReduceOp::sum); });

  run.expect_untouched();
  EXPECT_EQ(gpus.statistics().calls, before.calls);
  EXPECT_EQ(gpus.statistics().launches, before.launches);
  EXPECT_EQ(gpus.statistics(last).launches, before_last.launches);
  run.enqueue();
  run.check();
}

/// Wrong on the last device alone: the others must not be given the call.
TEST_P(DeviceGroups, MistakesInEveryCollectiveEnqueueNothing) {
  const int n = GetParam(), last = n - 1;
  Gpus gpus(n);
  for (const Collective collective : collectives) {
    const Call call{.collective = collective,
                    .type = DataType::f64,
                    .count = 4,
                    .root = facts_of(collective).rooted ? last : 0,
                    .parts = parts_of(collective, n)};
    GroupRun<double> run(gpus.group, gpus.arena, {.call = call});
    run.upload();
    gpus.group.synchronize();
    const auto before = gpus.statistics();
    for (const Mistake& m : mistakes(call, run.send.back(), run.recv.back(), last, n)) {
      SCOPED_TRACE(m.why);
      auto send = run.send;
      auto recv = run.recv;
      const bool of_last = m.send != run.send.back() || m.recv != run.recv.back();
      const int found_on = of_last ? last : 0;  // all devices are given the same call
      send.back() = m.send;
      recv.back() = m.recv;
      expect_refused(
          m.code,
          AllOf(testing::StartsWith(refused_by(collective)), HasSubstr(m.why),
                HasSubstr(fmt::format("(rank {0}: {1} device {0})", found_on, name_of(target())))),
          [&] {
            enqueue_by_name(gpus.group, m.call, send, recv, DeviceGroup::Streams(), m.options);
          });
    }
    std::vector<std::span<const double>> send;
    std::vector<std::span<double>> recv;
    for (std::size_t rank = 0; rank < run.send.size(); ++rank) {
      send.emplace_back(static_cast<const double*>(run.send[rank]),
                        send_bytes(call) / sizeof(double));
      recv.emplace_back(static_cast<double*>(run.recv[rank]), recv_bytes(call) / sizeof(double));
    }
    send.back() = send.back().first(send.back().size() - 1);
    expect_refused(
        ErrorCode::invalid_argument,
        AllOf(testing::StartsWith(refused_by(collective)),
              HasSubstr(fmt::format("send has {} elements, recv {}", send.back().size(),
                                    recv.back().size()))),
        [&] { enqueue_buffers_by_name(gpus.group, call, send, recv, DeviceGroup::Streams()); });
    run.expect_untouched();
    EXPECT_EQ(gpus.statistics().calls, before.calls);
    EXPECT_EQ(gpus.statistics().launches, before.launches);
    run.enqueue();
    run.check();
  }
}

/// Found at once; ranks of several processes find it as they find any call that differs. Each
/// device knows its part of the wrong calls from right ones.
TEST_P(SeveralDevices, RefuseDifferentPlacesOfSymmetricMemory) {
  Gpus gpus(GetParam());
  const auto x = gpus.group.allocate<float>(100), y = gpus.group.allocate<float>(100);
  std::vector<float*> same, shifted, another, ordinary;
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    same.push_back(x[rank].data() + 4);
    shifted.push_back(x[rank].data() + 8);
    another.push_back(y[rank].data() + 4);
    gpus.arena.send[rank]->place(0, 400);
    ordinary.push_back(static_cast<float*>(gpus.arena.send[rank]->device()));
  }
  const auto sum = [&](const std::vector<float*>& places) {
    gpus.group.all_reduce(places, places, 50, DataType::f32, ReduceOp::sum);
  };
  for (const bool known : {false, true}) {
    const auto calls = gpus.statistics().calls;
    for (const auto* other : {&shifted, &another, &ordinary}) {
      std::vector<float*> wrong = same;
      wrong.back() = other->back();
      expect_refused(ErrorCode::mismatch,
                     AllOf(HasSubstr(fmt::format("all_reduce: rank {} passes", GetParam() - 1)),
                           HasSubstr("symmetric memory")),
                     [&] { sum(wrong); });
    }
    EXPECT_EQ(gpus.statistics().calls, calls);
    for (int times = 0; !known && times < 3; ++times)
      for (const auto* right : {&same, &shifted, &another, &ordinary}) sum(*right);
  }
  gpus.group.synchronize();
}

/// Each rank by itself is right.
TEST_P(SeveralDevices, RefuseMemoryOfAnotherDevicesResult) {
  const int n = GetParam();
  Gpus gpus(n);
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  run.upload();
  gpus.group.synchronize();
  auto calls = gpus.statistics().calls;
  const auto all_reduce = [&](DeviceGroup::Inputs send, DeviceGroup::Outputs recv) {
    gpus.group.all_reduce(send, recv, 100, DataType::i32, ReduceOp::sum);
  };
  const auto refused = [](const testing::Matcher<std::string>& ranks,
                          const std::function<void()>& call) {
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(ranks, HasSubstr("use the same memory, and one writes it")), call);
  };
  const int last = n - 1;
  const std::string ranks = fmt::format("all_reduce: ranks 0 and {} ", last);
  auto shared = run.recv;
  shared.back() = static_cast<std::byte*>(run.recv[0]) + 396;
  refused(HasSubstr(ranks), [&] { all_reduce(run.send, shared); });
  auto read = run.send;
  read.back() = run.recv[0];
  refused(HasSubstr(ranks), [&] { all_reduce(read, run.recv); });
  refused(HasSubstr("all_reduce: ranks "), [&] {
    const std::vector<void*> same(run.recv.size(), run.recv[0]);
    all_reduce(same, same);
  });
  refused(HasSubstr("group: "), [&] {
    const Group group;
    all_reduce(run.send, shared);
  });
  run.expect_untouched();
  if (target() == BackendKind::host) {  // whose devices write all memory
    auto next = run.recv;
    std::rotate(next.begin(), next.begin() + 1, next.end());
    for (int times = 0; times < 3; ++times)
      for (const auto& right : {run.recv, next}) all_reduce(run.send, right);
    gpus.group.synchronize();
    calls += 6;
    auto known = run.recv;  // on each device
    known.back() = next.back();
    refused(HasSubstr(ranks), [&] { all_reduce(run.send, known); });
    run.upload();
  }
  EXPECT_EQ(gpus.statistics().calls, calls);
  run.enqueue();
  run.check();
}

}  // namespace
}  // namespace plait::test
