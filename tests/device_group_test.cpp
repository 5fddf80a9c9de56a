// Several devices driven by one thread, without MPI.
#include "plait/device_group.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/collective_algorithm.hpp"
#include "support/device_group_call.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/no_threads.hpp"

namespace plait::test {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

DeviceGroupOptions options() { return {.backend = target(), .timeout = patience}; }

/// A group, its memory and a stream on each device.
struct Gpus {
  explicit Gpus(int devices, const DeviceGroupOptions& how = options()) : group(DeviceGroup::first(devices, how)) {}

  Statistics statistics(int rank = 0) const { return group.device(rank).statistics(); }

  DeviceGroup group;
  GroupArena arena{group};
  std::vector<Stream> streams = group.create_streams();
};

std::vector<Collective> collectives() {
  std::vector<Collective> all;
  for (int i = 0; i < collective_count; ++i)
    if (const auto c = static_cast<Collective>(i); c != Collective::barrier && c != Collective::send_recv) all.push_back(c);
  return all;
}

GroupCase sum_of(std::size_t count, std::uint64_t seed = 1) {
  return {.call = {.collective = Collective::all_reduce, .type = DataType::i32, .op = ReduceOp::sum, .count = count}, .seed = seed};
}

class DeviceGroups : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceGroups, testing::Values(1, 2, 3, 4, 8),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// One device agrees with itself, and waits for nobody.
using SeveralDevices = DeviceGroups;
INSTANTIATE_TEST_SUITE_P(All, SeveralDevices, testing::Values(2, 3, 4, 8), [](const auto& test) { return fmt::format("n{}", test.param); });

TEST_P(DeviceGroups, EveryCollectiveInEveryWay) {
  Gpus gpus(GetParam());
  std::uint64_t seed = 0;
  for (const Collective collective : collectives())
    for (int t = 0; t < data_type_count; t += under_tsan ? 5 : 1)
      for (int way = 0; way < 8; ++way)
        for (const std::size_t count : {std::size_t{1}, std::size_t{1000} + seed % 7}) {
          ++seed;
          GroupCase c{.in_place = (way & 1) != 0, .symmetric = (way & 2) != 0, .seed = seed};
          c.call = {.collective = collective,
                    .type = static_cast<DataType>(t),
                    .op = seed % 3 == 0 ? ReduceOp::max : ReduceOp::sum,
                    .count = count,
                    .root = facts_of(collective).rooted ? static_cast<int>(seed) % GetParam() : 0};
          if (!facts_of(collective).reduces) c.call.op = ReduceOp::sum;
          if ((way & 4) != 0) check_case(gpus.group, gpus.arena, c, gpus.streams);
          else check_case(gpus.group, gpus.arena, c);
          if (HasFatalFailure()) return;
        }
}

TEST_P(DeviceGroups, EveryAlgorithm) {
  Gpus gpus(GetParam());
  std::size_t found = 0;
  for (const auto& algorithm : Registry::instance().all()) {
    if (algorithm->collective() != Collective::all_reduce || algorithm->name().starts_with("fails")) continue;
    GroupCase c = sum_of(20'000, found);
    c.symmetric = true;
    c.algorithm = algorithm->name();
    Call call = c.call;
    call.symmetric = true;
    if (gpus.group.device(0).explain(call, {}).find("  " + c.algorithm + " ") == std::string::npos) continue;
    const auto refused = error_of([&] { check_case(gpus.group, gpus.arena, c, gpus.streams); });
    if (refused) expect_error(refused, ErrorCode::unsupported, HasSubstr(c.algorithm));
    else ++found;
  }
  EXPECT_GE(found, 5u);
}

TEST_P(DeviceGroups, ManyCallsWithoutWaiting) {
  Gpus gpus(GetParam());
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(300));
  run.upload(gpus.streams);
  for (int i = 0; i < (under_tsan ? 100 : 2000); ++i) run.enqueue(gpus.streams);
  run.check(gpus.streams);
}

TEST_P(DeviceGroups, AnyCollectiveByOneFunction) {
  Gpus gpus(GetParam());
  for (const Collective collective : collectives()) {
    GroupCase c{.call = {.collective = collective, .type = DataType::f64, .count = 77, .root = 0}};
    GroupRun<double> run(gpus.group, gpus.arena, c);
    run.upload();
    run.enqueue_generic();
    run.check();
  }
  const auto before = gpus.statistics().calls;
  gpus.group.enqueue({.collective = Collective::barrier}, {}, {}, gpus.streams);
  gpus.group.synchronize(gpus.streams);
  EXPECT_EQ(gpus.statistics().calls, before + 1);
}

TEST_P(DeviceGroups, ABarrierOrdersTheStreams) {
  Gpus gpus(GetParam());
  std::atomic<int> before = 0, early = 0;
  for (int rank = 0; rank < GetParam(); ++rank) {
    Backend& backend = gpus.group.device(rank).backend();
    const DeviceScope device(backend);
    backend.host_call(gpus.streams[static_cast<std::size_t>(rank)].native(), [&before, rank] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10) * rank);
      ++before;
    });
  }
  gpus.group.barrier(gpus.streams);
  for (int rank = 0; rank < GetParam(); ++rank) {
    Backend& backend = gpus.group.device(rank).backend();
    const DeviceScope device(backend);
    backend.host_call(gpus.streams[static_cast<std::size_t>(rank)].native(), [&, n = GetParam()] { early += before != n ? 1 : 0; });
  }
  gpus.group.synchronize(gpus.streams);
  EXPECT_EQ(before, GetParam());
  EXPECT_EQ(early, 0);
}

/// Typed buffers of every collective, whose blocks' size is found out.
TEST_P(DeviceGroups, TypedBuffers) {
  const int n = GetParam();
  const auto ranks = static_cast<std::size_t>(n);
  Gpus gpus(n);
  DeviceGroup& group = gpus.group;
  constexpr std::size_t count = 100;
  const auto one = group.allocate<float>(count), other = group.allocate<float>(count);
  const auto many = group.allocate<float>(count * ranks), others = group.allocate<float>(count * ranks);
  const auto fill = [&](const std::vector<Buffer<float>>& buffers) {
    std::vector<float> values(buffers[0].size());
    for (int rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(rank * 1000) + static_cast<float>(i);
      group.device(rank).copy(buffers[static_cast<std::size_t>(rank)].data(), values.data(), values.size() * sizeof(float));
      group.device(rank).synchronize();
    }
  };
  const auto at = [&](const std::vector<Buffer<float>>& buffers, int rank, std::size_t i) {
    float value = 0;
    group.synchronize(gpus.streams);
    group.device(rank).copy(&value, buffers[static_cast<std::size_t>(rank)].data() + i, sizeof value);
    group.device(rank).synchronize();
    return value;
  };
  fill(one);
  fill(many);
  const float all = static_cast<float>(n * (n - 1) / 2) * 1000;
  const int last = n - 1;
  std::vector<std::span<float>> spans;
  std::vector<std::span<const float>> inputs;
  for (const auto& buffer : other) spans.push_back(buffer.span());
  for (const auto& buffer : one) inputs.push_back(buffer.span());

  group.all_reduce(inputs, spans, ReduceOp::sum, gpus.streams);
  EXPECT_EQ(at(other, last, 7), all + static_cast<float>(n * 7));
  group.reduce_scatter(many, other, ReduceOp::sum, gpus.streams);
  EXPECT_EQ(at(other, last, 7), all + static_cast<float>(n) * (static_cast<float>(count * (ranks - 1)) + 7));
  group.all_gather(one, others, gpus.streams);
  EXPECT_EQ(at(others, 0, count * (ranks - 1) + 3), static_cast<float>(last * 1000 + 3));
  group.broadcast(one, other, last, gpus.streams);
  EXPECT_EQ(at(other, 0, 5), static_cast<float>(last * 1000 + 5));
  group.reduce(one, other, ReduceOp::max, last, gpus.streams);
  EXPECT_EQ(at(other, last, 5), static_cast<float>(last * 1000 + 5));
  group.all_to_all(many, others, gpus.streams);
  EXPECT_EQ(at(others, last, 0), static_cast<float>(count * (ranks - 1)));
  group.gather(one, others, 0, gpus.streams);
  EXPECT_EQ(at(others, 0, count * (ranks - 1) + 3), static_cast<float>(last * 1000 + 3));
  group.scatter(many, other, 0, gpus.streams);
  EXPECT_EQ(at(other, last, 3), static_cast<float>(count * (ranks - 1) + 3));

  // Only the root needs what only the root has.
  std::vector<std::span<float>> at_root(ranks);
  at_root[ranks - 1] = one.back().span();
  group.broadcast(at_root, spans, last, gpus.streams);
  EXPECT_EQ(at(other, 0, 5), static_cast<float>(last * 1000 + 5));
  expect_error(error_of([&] { group.broadcast(std::vector<std::span<float>>(ranks), spans, last); }), ErrorCode::invalid_argument,
               AllOf(HasSubstr(fmt::format("broadcast: rank {}: send has 0 elements, recv 100", last)), HasSubstr("device")));
}

TEST(PerDevice, LooksAtAnyRange) {
  float a = 0, b = 0;
  const auto first = [](DeviceGroup::Inputs inputs) { return std::pair(inputs.size(), inputs[0]); };
  const auto second = [](DeviceGroup::Outputs outputs) { return std::pair(outputs.size(), outputs[1]); };
  const std::vector<float*> pointers{&a, &b};
  const std::array<const float*, 2> constant{&a, &b};
  const std::vector<std::span<float>> spans{{&a, 1}, {&b, 1}};
  void* raw[] = {&a, &b};
  const std::pair<std::size_t, const void*> wanted_first{2, &a};
  const std::pair<std::size_t, void*> wanted_second{2, &b};
  EXPECT_EQ(first(pointers), wanted_first);
  EXPECT_EQ(first(constant), wanted_first);
  EXPECT_EQ(first(spans), wanted_first);
  EXPECT_EQ(first({&a, &b}), wanted_first);
  EXPECT_EQ(first(std::span(pointers)), wanted_first);
  EXPECT_EQ(second(pointers), wanted_second);
  EXPECT_EQ(second(spans), wanted_second);
  EXPECT_EQ(second({&a, &b}), wanted_second);
  EXPECT_EQ(second(std::span(raw)), wanted_second);
  EXPECT_TRUE(DeviceGroup::Inputs{}.empty());
  static_assert(!std::is_constructible_v<DeviceGroup::Outputs, const std::array<const float*, 2>&>, "nothing is written through it");
  static_assert(!std::is_constructible_v<DeviceGroup::Streams, const std::vector<float*>&>);
}

// --- what is refused -------------------------------------------------------------------------------------------------------------------

void expect_refused(ErrorCode code, const testing::Matcher<std::string>& message, const std::function<void()>& call) {
  const auto error = error_of(call);
  expect_error(error, code, message);
  EXPECT_THAT(std::string(error ? error->what() : ""), Not(HasSubstr("\n"))) << "more than a sentence";
}

TEST(DeviceList, IsChecked) {
  const auto make = [](std::vector<int> devices) { return [=] { DeviceGroup(devices, options()); }; };
  const std::string kind(name_of(target()));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("device group: no device was named"), make({}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr(kind + " device 0 is named twice"), make({0, 0}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("device group: -1 is no device"), make({-1, 0}));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("0 devices, but at least 1"), [] { DeviceGroup::first(0, options()); });
  if (target() != BackendKind::host)
    expect_refused(ErrorCode::invalid_argument, HasSubstr(kind + " device 4711 does not exist, there are"), make({0, 4711}));
  for (const BackendKind other : {BackendKind::cuda, BackendKind::hip})
    if (device_count(other) == 0)
      expect_refused(ErrorCode::unsupported, HasSubstr(std::string(name_of(other))), [&] { DeviceGroup({0}, {.backend = other}); });
}

TEST(DeviceList, GoesWithTheGroup) {
  DeviceGroup group({0}, options());
  const DeviceGroup moved = std::move(group);
  const auto refused = [](const std::string& call, const std::function<void()>& body) {
    expect_refused(ErrorCode::invalid_argument, HasSubstr(call + ": this device group was moved from"), body);
  };
  refused("size", [&] { group.size(); });  // NOLINT(bugprone-use-after-move): that is what is asked about
  refused("barrier", [&] { group.barrier(); });
  refused("synchronize", [&] { group.synchronize(); });
  refused("allocate_bytes", [&] { group.allocate<float>(1); });
  refused("create_streams", [&] { group.create_streams(); });
  refused("describe", [&] { group.describe(); });
  refused("device", [&] { group.device(0); });
}

TEST(DeviceList, IsTheOrderOfTheRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const DeviceGroup group({1, 0}, options());
  EXPECT_EQ(group.size(), 2);
  EXPECT_EQ(group.backend_kind(), target());
  EXPECT_EQ(group.device(0).backend().info().ordinal, 1);
  EXPECT_EQ(group.device(1).backend().info().ordinal, 0);
  EXPECT_THAT(group.describe(), AllOf(HasSubstr(fmt::format("rank 0 of 2: {} device 1", name_of(target()))), HasSubstr("\nrank 1 of 2: ")));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("rank 2 is none of the ranks 0 to 1"), [&] { group.device(2); });
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
  const auto all_reduce = [&](DeviceGroup::Inputs send, DeviceGroup::Outputs recv, std::size_t count = 100,
                              DeviceGroup::Streams streams = {}, const CallOptions& call = {}) {
    group.all_reduce(send, recv, count, DataType::i32, ReduceOp::sum, streams, call);
  };
  const auto refused = [&](const testing::Matcher<std::string>& message, const std::function<void()>& call,
                           ErrorCode code = ErrorCode::invalid_argument) { expect_refused(code, message, call); };

  auto fewer = run.send;
  fewer.pop_back();
  refused(HasSubstr(fmt::format("all_reduce: {} send buffers for {} devices", last, n)), [&] { all_reduce(fewer, run.recv); });
  auto more = run.recv;
  more.push_back(more[0]);
  refused(HasSubstr(fmt::format("all_reduce: {} recv buffers for {} devices", n + 1, n)), [&] { all_reduce(run.send, more); });
  std::vector<StreamRef> streams(static_cast<std::size_t>(n + 1));
  refused(HasSubstr(fmt::format("{} streams for {} devices", n + 1, n)), [&] { all_reduce(run.send, run.recv, 100, streams); });
  refused(HasSubstr("streams for"), [&] { group.synchronize(streams); });
  if (n > 1) {
    streams.assign(static_cast<std::size_t>(n), gpus.streams[0]);
    refused(HasSubstr("all_reduce: ranks 0 and 1 have the same stream"), [&] { all_reduce(run.send, run.recv, 100, streams); });
  }
  // Wrong on the last device alone: the others must not be given the call.
  auto null = run.send;
  null.back() = nullptr;
  refused(AllOf(HasSubstr(fmt::format("all_reduce: rank {}: send is null", last)), HasSubstr(device)), [&] { all_reduce(null, run.recv); });
  auto odd = run.send;
  odd.back() = static_cast<const std::byte*>(odd.back()) + 1;
  refused(AllOf(HasSubstr("is not aligned"), HasSubstr(device)), [&] { all_reduce(odd, run.recv); });
  auto overlapping = run.send;
  overlapping.back() = static_cast<const std::byte*>(run.recv.back()) + 4;
  refused(AllOf(HasSubstr("overlap"), HasSubstr(device)), [&] { all_reduce(overlapping, run.recv); });
  refused(HasSubstr("overflows"), [&] { all_reduce(run.send, run.recv, std::numeric_limits<std::size_t>::max()); });
  refused(HasSubstr("no such algorithm"), [&] { all_reduce(run.send, run.recv, 100, {}, {.algorithm = "no such algorithm"}); });
  refused(
      HasSubstr("twoshot"), [&] { all_reduce(run.send, run.recv, 100, {}, {.algorithm = "twoshot"}); }, ErrorCode::unsupported);
  refused(HasSubstr(fmt::format("root {} is none of the ranks 0 to {}", n, last)),
          [&] { group.broadcast(run.send, run.recv, 100, DataType::i32, n); });
  refused(HasSubstr("root -1"), [&] { group.reduce(run.send, run.recv, 100, DataType::i32, ReduceOp::sum, -1); });
  refused(
      HasSubstr("premul_sum"), [&] { group.all_reduce(run.send, run.recv, 100, DataType::i32, ReduceOp::premul_sum); },
      ErrorCode::unsupported);
  refused(HasSubstr("42 is no collective"), [&] { group.enqueue({.collective = static_cast<Collective>(42)}, run.send, run.recv); });
  refused(HasSubstr("overflow"), [&] { static_cast<void>(group.allocate<double>(std::numeric_limits<std::size_t>::max() / 2)); });
  // Spans.
  std::vector<std::span<const std::int32_t>> send;
  std::vector<std::span<std::int32_t>> recv;
  for (std::size_t rank = 0; rank < run.send.size(); ++rank) {
    send.emplace_back(static_cast<const std::int32_t*>(run.send[rank]), 100);
    recv.emplace_back(static_cast<std::int32_t*>(run.recv[rank]), 100);
  }
  const auto right = send;
  send.back() = send.back().first(99);
  refused(AllOf(HasSubstr(fmt::format("all_reduce: rank {}: send has 99 elements, recv 100", last)), HasSubstr(device)),
          [&] { group.all_reduce(send, recv, ReduceOp::sum); });
  recv.back() = recv.back().first(99);
  if (n > 1) refused(HasSubstr("send has 99 elements, recv 99: with blocks of 100"), [&] { group.all_reduce(send, recv, ReduceOp::sum); });
  refused(HasSubstr("all_gather"), [&] { group.all_gather(right, recv); });

  run.expect_untouched();
  EXPECT_EQ(gpus.statistics().calls, before.calls);
  EXPECT_EQ(gpus.statistics().launches, before.launches);
  EXPECT_EQ(gpus.statistics(last).launches, before_last.launches);
  run.enqueue();
  run.check();
}

/// Found at once; ranks of several processes find it as they find any call that differs.
TEST_P(SeveralDevices, RefuseDifferentPlacesOfSymmetricMemory) {
  Gpus gpus(GetParam());
  const auto x = gpus.group.allocate<float>(100), y = gpus.group.allocate<float>(100);
  std::vector<float*> same, shifted, another, ordinary;
  for (std::size_t rank = 0; rank < x.size(); ++rank) {
    const bool odd = rank + 1 == x.size();
    same.push_back(x[rank].data() + 4);
    shifted.push_back(x[rank].data() + (odd ? 8 : 4));
    another.push_back((odd ? y : x)[rank].data() + 4);
    gpus.arena.send[rank]->place(0, 400);
    ordinary.push_back(odd ? static_cast<float*>(gpus.arena.send[rank]->device()) : x[rank].data() + 4);
  }
  const auto calls = gpus.statistics().calls;
  for (const auto* wrong : {&shifted, &another, &ordinary})
    expect_refused(ErrorCode::mismatch,
                   AllOf(HasSubstr(fmt::format("all_reduce: rank {} passes", GetParam() - 1)), HasSubstr("symmetric memory")),
                   [&] { gpus.group.all_reduce(*wrong, *wrong, 50, DataType::f32, ReduceOp::sum); });
  EXPECT_EQ(gpus.statistics().calls, calls);
  gpus.group.all_reduce(same, same, 50, DataType::f32, ReduceOp::sum);
  gpus.group.synchronize();
}

/// Each rank by itself is right.
TEST_P(SeveralDevices, RefuseMemoryOfAnotherDevicesResult) {
  const int n = GetParam();
  Gpus gpus(n);
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  run.upload();
  gpus.group.synchronize();
  const auto calls = gpus.statistics().calls;
  const auto all_reduce = [&](DeviceGroup::Inputs send, DeviceGroup::Outputs recv) {
    gpus.group.all_reduce(send, recv, 100, DataType::i32, ReduceOp::sum);
  };
  const auto refused = [](const std::string& what, int other, const std::function<void()>& call) {
    expect_refused(ErrorCode::invalid_argument,
                   AllOf(HasSubstr("all_reduce: recv = "), HasSubstr(fmt::format(", 400 bytes, of rank 0 and {} = ", what)),
                         HasSubstr(fmt::format(", 400 bytes, of rank {} overlap", other))),
                   call);
  };
  const int last = n - 1;
  auto shared = run.recv;
  shared.back() = static_cast<std::byte*>(run.recv[0]) + 396;
  refused("recv", last, [&] { all_reduce(run.send, shared); });
  auto read = run.send;
  read.back() = run.recv[0];
  refused("send", last, [&] { all_reduce(read, run.recv); });
  refused("send", 1, [&] {
    const std::vector<void*> same(run.recv.size(), run.recv[0]);
    all_reduce(same, same);
  });
  expect_refused(ErrorCode::invalid_argument, HasSubstr("overlap"), [&] {
    const Group group;
    all_reduce(run.send, shared);
  });
  run.expect_untouched();
  EXPECT_EQ(gpus.statistics().calls, calls);
  run.enqueue();
  run.check();
}

TEST_P(DeviceGroups, NothingToDo) {
  Gpus gpus(GetParam());
  const auto before = gpus.statistics();
  const std::vector<void*> nothing(static_cast<std::size_t>(GetParam()));
  gpus.group.all_reduce(nothing, nothing, 0, DataType::f32, ReduceOp::sum);
  EXPECT_EQ(gpus.statistics().calls, before.calls);
}

// --- groups, graphs ---------------------------------------------------------------------------------------------------------------------

/// Messages of 16 elements in symmetric memory, each rank's number plus the message's.
class Small {
 public:
  Small(DeviceGroup& gpus, std::size_t messages) : gpus_(gpus), messages_(messages), x_(gpus.allocate<std::int64_t>(messages * 16)) {
    fill();
  }
  void fill() {
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      std::vector<std::int64_t> values(messages_ * 16);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = rank + static_cast<std::int64_t>(i / 16);
      gpus_.device(rank).copy(x_[static_cast<std::size_t>(rank)].data(), values.data(), values.size() * sizeof values[0]);
      gpus_.device(rank).synchronize();
    }
  }
  void call(std::size_t message, DeviceGroup::Streams streams = {}) {
    std::vector<std::span<std::int64_t>> spans;
    for (const auto& buffer : x_) spans.push_back(buffer.span().subspan(message * 16, 16));
    gpus_.all_reduce(spans, spans, ReduceOp::sum, streams, {.algorithm = "oneshot_ll"});
  }
  /// `times`: how often each message was reduced in place.
  void check(DeviceGroup::Streams streams = {}, int times = 1) {
    gpus_.synchronize(streams);
    const std::int64_t n = gpus_.size();
    for (int rank = 0; rank < gpus_.size(); ++rank) {
      std::vector<std::int64_t> values(messages_ * 16);
      gpus_.device(rank).copy(values.data(), x_[static_cast<std::size_t>(rank)].data(), values.size() * sizeof values[0]);
      gpus_.device(rank).synchronize();
      for (std::size_t i = 0; i < values.size(); ++i) {
        std::int64_t wanted =
            times == 0 ? rank + static_cast<std::int64_t>(i / 16) : n * (n - 1) / 2 + n * static_cast<std::int64_t>(i / 16);
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

TEST_P(DeviceGroups, AGroupOfCallsIsOneLaunchADevice) {
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

/// More calls than the work FIFO holds: enqueueing on device 0 must not wait for what device 1 has not been given.
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
    for (const auto& array : gpus.arena.send) elsewhere.push_back(static_cast<std::byte*>(array->device()) + 4096);
    gpus.group.all_reduce(send, elsewhere, 100, DataType::i32, ReduceOp::sum);
  };
  expect_refused(
      ErrorCode::invalid_argument,
      HasSubstr(fmt::format("group: call 1, all_reduce on rank 0, and call 2, all_reduce on rank {}, use the same memory", GetParam() - 1)),
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
                 AllOf(HasSubstr("group: call 2: all_reduce: "), HasSubstr("nothing of the group was enqueued")), [] { group_end(); });
  EXPECT_EQ(gpus.statistics().calls, calls);
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
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a device group is destroyed with calls in a group that has not ended"));
  expect_refused(ErrorCode::invalid_argument, HasSubstr("a communicator with calls in it was destroyed"), [] { group_end(); });
}

TEST_P(DeviceGroups, Captured) {
  const int n = GetParam();
  Gpus gpus(n);
  Small small(gpus.group, 40);
  const auto backend = [&](int rank) -> Backend& { return gpus.group.device(rank).backend(); };
  const auto stream = [&](int rank) { return gpus.streams[static_cast<std::size_t>(rank)].native(); };
  const auto on = [&](int rank, const auto& body) {
    const DeviceScope device(backend(rank));
    return body(backend(rank));
  };
  if (n > 1) {
    on(n - 1, [&](Backend& b) { b.begin_capture(stream(n - 1)); });
    const auto calls = gpus.statistics().calls;
    expect_refused(ErrorCode::invalid_argument, HasSubstr(fmt::format("the stream of rank {} is being captured and that of rank 0", n - 1)),
                   [&] { small.call(0, gpus.streams); });
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
  for (int rank = 0; rank < n; ++rank) graphs.push_back(on(rank, [&](Backend& b) { return b.end_capture(stream(rank)); }));
  small.check(gpus.streams, 0);
  for (int times = 1; times <= 3; ++times) {
    for (int rank = 0; rank < n; ++rank) on(rank, [&](Backend&) { graphs[static_cast<std::size_t>(rank)]->launch(stream(rank)); });
    small.check(gpus.streams, times);
  }
}

// --- threads, devices, lives ------------------------------------------------------------------------------------------------------------

int current_device(Backend& backend) {
  const int current = backend.bind();
  backend.restore(current);
  return current;
}

TEST(DeviceGroup, WithoutThreads) {
  const std::optional<NoThreads> none(std::in_place);
  expect_refused(ErrorCode::backend, HasSubstr("can't start a thread for each device"), [] { DeviceGroup::first(1, options()); });
}

TEST_P(DeviceGroups, BarriersHaveNoBuffers) {
  Gpus gpus(GetParam());
  std::vector<const void*> pointers(1);
  gpus.group.enqueue({.collective = Collective::barrier}, pointers, {});
  gpus.group.synchronize();
}

TEST_P(DeviceGroups, LeaveTheThreadItsDevice) {
  std::optional<Gpus> probe(std::in_place, GetParam());
  Backend& last = probe->group.device(GetParam() - 1).backend();
  const DeviceScope device(last);
  const int mine = current_device(last);
  const auto expect_same = [&](const char* after) { EXPECT_EQ(current_device(last), mine) << after; };
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
    static_cast<void>(error_of([&] { gpus.group.all_reduce({nullptr}, {nullptr}, 1, DataType::f32, ReduceOp::sum); }));
    static_cast<void>(gpus.group.async_error());
    expect_same("an error");
  }
  expect_same("destruction");
}

TEST_P(DeviceGroups, TwoAtOnce) {
  Gpus a(GetParam());
  Gpus b(GetParam());
  GroupRun<std::int32_t> in_a(a.group, a.arena, sum_of(3000, 1)), in_b(b.group, b.arena, sum_of(100, 2));
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
  DeviceGroup a = DeviceGroup::first(GetParam(), options()), b = DeviceGroup::first(GetParam(), options());
  std::atomic<int> finished = 0;
  for (int rank = 0; rank < a.size(); ++rank) {
    Backend& backend = a.device(rank).backend();
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

/// PLAIT_CHECK compares calls between ranks, which then have to come together.
TEST_P(DeviceGroups, CheckedCalls) {
  const ScopedEnvironment check("PLAIT_CHECK", "1");
  Gpus gpus(GetParam());
  for (const Collective collective : collectives())
    for (int way = 0; way < 4; ++way)
      check_case(gpus.group, gpus.arena,
                 {.call = {.collective = collective, .type = DataType::f32, .count = 100, .root = GetParam() - 1},
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
}

// --- what ends a group ------------------------------------------------------------------------------------------------------------------

/// A call that only the first device gets waits for the others.
void call_on_rank_0(Gpus& gpus, GroupRun<std::int32_t>& run) {
  run.upload(gpus.streams);
  gpus.group.device(0).all_reduce(run.send[0], run.recv[0], 100, DataType::i32, ReduceOp::sum, gpus.streams[0]);
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
  if (GetParam() > 1) expect_error(error_of([&] { gpus.group.synchronize(gpus.streams); }), ErrorCode::aborted, HasSubstr("enough"));
  other.join();
  EXPECT_LT(Clock::now() - start, promised);
  expect_error(
      gpus.group.async_error(), ErrorCode::aborted,
      AllOf(HasSubstr("rank 0 has aborted the communicator: enough"), HasSubstr(std::string(name_of(target())) + " devices of ranks")));
  expect_error(error_of([&] { run.enqueue(); }), ErrorCode::aborted, HasSubstr("enough"));
  expect_error(error_of([&] { static_cast<void>(gpus.group.allocate<float>(1)); }), ErrorCode::aborted, HasSubstr("enough"));
  Gpus again(GetParam());
  check_case(again.group, again.arena, sum_of(1000), again.streams);
}

TEST_P(SeveralDevices, ADeadlineNamesTheDevice) {
  Gpus gpus(GetParam(), {.backend = target(), .timeout = 300ms});
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, sum_of(100));
  call_on_rank_0(gpus, run);
  expect_error(error_of([&] { gpus.group.synchronize(gpus.streams); }), ErrorCode::timeout,
               AllOf(HasSubstr("is missing"), HasSubstr("devices of ranks 0 to")));
}

/// Fails once all is checked, as a launch does that the runtime refuses.
class FailsOnTheLastRank final : public CollectiveAlgorithm {
 public:
  std::string_view name() const override { return "fails_on_the_last_rank"; }
  std::string_view summary() const override { return "nothing"; }
  Resources resources(const Topology&) const override { return {}; }
  std::vector<LaunchShape> shapes(const Call&, const Topology&) const override { return {{.blocks = 1, .threads = 1}}; }
  double estimate(const Call&, const Topology&) const override { return 1e12; }
  void enqueue(const Call&, const Buffers&, LaunchShape, LaunchContext& context) const override {
    if (context.rank() == context.ranks() - 1) throw Error(ErrorCode::backend, "the launch was refused");
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
      EXPECT_THAT(error->what(), HasSubstr(fmt::format("rank {}: {} device", GetParam() - 1, name_of(target()))));
    }
    expect_error(gpus.group.async_error(), ErrorCode::aborted, HasSubstr("could not be enqueued"));
    expect_error(error_of([&] { gpus.group.synchronize(); }), ErrorCode::aborted, HasSubstr("the launch was refused"));
  }
}

}  // namespace
}  // namespace plait::test
