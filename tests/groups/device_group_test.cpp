// Several devices driven by one thread, without MPI: the results of each collective.
#include "plait/device_group.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "algorithms/contract/collective_algorithm.hpp"
#include "groups/device_group_call.hpp"
#include "groups/device_groups.hpp"
#include "support/by_name.hpp"
#include "support/covering.hpp"
#include "support/errors.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, DeviceGroups, testing::Values(1, 2, 3, 4, 8), TestName());
INSTANTIATE_TEST_SUITE_P(All, SeveralDevices, testing::Values(2, 3, 4, 8), TestName());

TEST_P(DeviceGroups, EveryCollectiveInEveryWay) {
  Gpus gpus(GetParam());
  std::uint64_t seed = 0;
  for (const Levels& levels : covering({collectives.size(), data_type_count, 2, 2, 2, 2},
                                       static_cast<unsigned>(ranks()))) {
    const Collective collective = collectives[levels[0]];
    const auto type = static_cast<DataType>(levels[1]);
    if (under_tsan && levels[1] % 5 != 0) continue;
    ++seed;
    GroupCase c{.in_place = levels[2] == 1, .symmetric = levels[3] == 1, .seed = seed};
    c.call = {.collective = collective,
              .type = type,
              .op = seed % 3 == 0 ? ReduceOp::max : ReduceOp::sum,
              .count = levels[4] == 0 ? 1 : 1000 + seed % 7,
              .root = facts_of(collective).rooted ? static_cast<int>(seed) % ranks() : 0};
    if (type == DataType::boolean) c.call.op = ReduceOp::lor;
    else if (is_value_index(type)) c.call.op = ReduceOp::maxloc;
    else if (is_complex(type) && c.call.op == ReduceOp::max) c.call.op = ReduceOp::prod;
    if (!facts_of(collective).reduces) c.call.op = ReduceOp::sum;
    if (levels[5] == 1) check_case(gpus.group, gpus.arena, c, gpus.streams);
    else check_case(gpus.group, gpus.arena, c);
    if (HasFatalFailure()) return;
  }
}

TEST_P(DeviceGroups, EveryAlgorithm) {
  Gpus gpus(GetParam());
  std::size_t found = 0;
  for (const auto& algorithm : Registry::instance().all()) {
    if (algorithm->collective() != Collective::all_reduce || algorithm->name().starts_with("fails"))
      continue;
    GroupCase c = sum_of(20'000, found);
    c.call.type = DataType::f64;  // some refuse integers
    c.symmetric = true;
    c.algorithm = algorithm->name();
    const bool served = is_served(
        gpus.group.device(0),
        {.algorithm = c.algorithm, .type = c.call.type, .count = c.call.count, .symmetric = true});
    const auto refused = error_of([&] { check_case(gpus.group, gpus.arena, c, gpus.streams); });
    EXPECT_EQ(served, !refused.has_value()) << c.algorithm << (refused ? refused->what() : "");
    if (refused) {
      expect_error(refused, ErrorCode::unsupported, HasSubstr(c.algorithm));
      gpus.group.synchronize(gpus.streams);  // the upload
    } else {
      ++found;
    }
  }
  EXPECT_GE(found, 5u);
}

TEST_P(DeviceGroups, ManyCallsWithoutWaiting) {
  constexpr std::size_t messages = under_tsan ? 25 : 500, length = 100, more = 3;
  Gpus gpus(GetParam());
  const GroupCase all = sum_of(messages * length, 5);
  GroupRun<std::int32_t> run(gpus.group, gpus.arena, all);
  run.upload(gpus.streams);
  const auto part_of = [](auto buffers, std::size_t message) {
    for (auto& buffer : buffers)
      buffer =
          const_cast<std::int32_t*>(static_cast<const std::int32_t*>(buffer)) + message * length;
    return buffers;
  };
  for (std::size_t message = 0; message < messages; ++message) {
    const auto to = part_of(run.recv, message);
    const auto sum = [&](const auto& from) {
      gpus.group.all_reduce(from, to, length, DataType::i32, ReduceOp::sum, gpus.streams);
    };
    sum(part_of(run.send, message));
    for (std::size_t again = 0; again < more; ++again)  // in place, so each counts
      sum(std::vector<const void*>(to.begin(), to.end()));
  }
  run.download(gpus.streams);
  gpus.group.synchronize(gpus.streams);
  const auto n = static_cast<std::uint32_t>(GetParam());
  for (const auto& recv : gpus.arena.recv) {
    EXPECT_EQ(recv->damage(), "");
    for (std::size_t i = 0; i < messages * length; ++i) {
      const auto got = recv->get<std::uint32_t>(i);
      const auto once = static_cast<std::uint32_t>(
          expected<std::int32_t>(all.seed, GetParam(), i, ReduceOp::sum, 1));
      ASSERT_EQ(got, once * n * n * n) << "element " << i % length << " of message " << i / length;
    }
  }
}

TEST_P(DeviceGroups, AnyCollectiveByOneFunction) {
  Gpus gpus(GetParam());
  for (const Collective collective : collectives) {
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
    Backend& backend = backend_of(gpus.group.device(rank));
    const DeviceScope device(backend);
    backend.host_call(gpus.streams[static_cast<std::size_t>(rank)].native(), [&before, rank] {
      std::this_thread::sleep_for(std::chrono::milliseconds(10) * rank);
      ++before;
    });
  }
  gpus.group.barrier(gpus.streams);
  for (int rank = 0; rank < GetParam(); ++rank) {
    Backend& backend = backend_of(gpus.group.device(rank));
    const DeviceScope device(backend);
    backend.host_call(gpus.streams[static_cast<std::size_t>(rank)].native(),
                      [&, n = GetParam()] { early += before != n ? 1 : 0; });
  }
  gpus.group.synchronize(gpus.streams);
  EXPECT_EQ(before, GetParam());
  EXPECT_EQ(early, 0);
}

/// Typed buffers of every collective, whose blocks' size is found out.
TEST_P(SeveralDevices, MemoryOfTheProgramIsAttached) {
  constexpr std::size_t count = 3000;
  Gpus gpus(GetParam());
  DeviceGroup& group = gpus.group;
  std::vector<std::shared_ptr<void>> memory;
  std::vector<void*> pointers;
  std::vector<std::span<float>> spans;
  std::vector<float> values(count);
  for (int rank = 0; rank < ranks(); ++rank) {
    Backend& backend = backend_of(group.device(rank));
    const DeviceScope device(backend);
    memory.emplace_back(backend.allocate(count * sizeof(float)),
                        [&backend](void* pointer) { backend.deallocate(pointer); });
    pointers.push_back(memory.back().get());
    spans.emplace_back(static_cast<float*>(pointers.back()), count);
    for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>((rank + 2) * 1000 + i);
    group.device(rank).copy(pointers.back(), values.data(), count * sizeof(float));
    group.device(rank).synchronize();
  }
  expect_invalid([&] { group.attach(std::span(pointers).first(1), 16); }, "attach", "1 pointers");
  const auto windows = group.attach(pointers, count * sizeof(float));
  const std::vector<std::span<const float>> inputs(spans.begin(), spans.end());
  group.all_reduce(inputs, spans, ReduceOp::sum, gpus.streams, {.algorithm = "twoshot"});
  group.synchronize(gpus.streams);
  const int n = ranks();
  for (int rank = 0; rank < n; ++rank) {
    group.device(rank).copy(values.data(), pointers[static_cast<std::size_t>(rank)],
                            count * sizeof(float));
    group.device(rank).synchronize();
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(values[i], static_cast<float>(500 * n * (n + 3)) +
                               static_cast<float>(static_cast<std::size_t>(n) * i));
  }
  group.detach(windows);
  EXPECT_FALSE(group.device(0).is_symmetric(pointers[0], 16));
}

TEST_P(DeviceGroups, TypedBuffers) {
  const int n = GetParam();
  const auto ranks = static_cast<std::size_t>(n);
  Gpus gpus(n);
  DeviceGroup& group = gpus.group;
  constexpr std::size_t count = 100;
  const auto one = group.allocate<float>(count), other = group.allocate<float>(count);
  const auto many = group.allocate<float>(count * ranks),
             others = group.allocate<float>(count * ranks);
  const auto fill = [&](const std::vector<Buffer<float>>& buffers) {
    std::vector<float> values(buffers[0].size());
    for (int rank = 0; rank < n; ++rank) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(rank * 1000) + static_cast<float>(i);
      group.device(rank).copy(buffers[static_cast<std::size_t>(rank)].data(), values.data(),
                              values.size() * sizeof(float));
      group.device(rank).synchronize();
    }
  };
  const auto at = [&](const std::vector<Buffer<float>>& buffers, int rank, std::size_t i) {
    float value = 0;
    group.synchronize(gpus.streams);
    group.device(rank).copy(&value, buffers[static_cast<std::size_t>(rank)].data() + i,
                            sizeof value);
    group.device(rank).synchronize();
    return value;
  };
  fill(one);
  fill(many);
  const float all = 500 * static_cast<float>(n * (n - 1));
  const int last = n - 1;
  std::vector<std::span<float>> spans;
  std::vector<std::span<const float>> inputs;
  for (const auto& buffer : other) spans.push_back(buffer.span());
  for (const auto& buffer : one) inputs.emplace_back(buffer.span());

  group.all_reduce(inputs, spans, ReduceOp::sum, gpus.streams);
  EXPECT_EQ(at(other, last, 7), all + static_cast<float>(n * 7));
  group.reduce_scatter(many, other, ReduceOp::sum, gpus.streams);
  EXPECT_EQ(at(other, last, 7),
            all + static_cast<float>(n) * (static_cast<float>(count * (ranks - 1)) + 7));
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
  expect_invalid([&] { group.broadcast(std::vector<std::span<float>>(ranks), spans, last); },
                 fmt::format("broadcast: rank {}: send has 0 elements, recv 100", last), "device");
}

TEST(PerDevice, LooksAtAnyRange) {
  float a = 0, b = 0;
  const auto first = [](DeviceGroup::Inputs inputs) { return std::pair(inputs.size(), inputs[0]); };
  const auto second = [](DeviceGroup::Outputs outputs) {
    return std::pair(outputs.size(), outputs[1]);
  };
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
  static_assert(!std::is_constructible_v<DeviceGroup::Outputs, const std::array<const float*, 2>&>,
                "nothing is written through it");
  static_assert(!std::is_constructible_v<DeviceGroup::Streams, const std::vector<float*>&>);
}

TEST_P(DeviceGroups, NothingToDo) {
  Gpus gpus(GetParam());
  const auto before = gpus.statistics();
  const std::vector<void*> nothing(static_cast<std::size_t>(GetParam()));
  gpus.group.all_reduce(nothing, nothing, 0, DataType::f32, ReduceOp::sum);
  EXPECT_EQ(gpus.statistics().calls, before.calls);
}

}  // namespace
}  // namespace plait::test
