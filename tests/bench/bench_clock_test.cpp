// The clock of plait-bench sees the slowest rank, and its statistics are those of the samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "bench/timing.hpp"
#include "support/ranks.hpp"

namespace plait::bench {
namespace {

using test::run_ranks;

TEST(Quantiles, AreLinearBetweenSortedValues) {
  const Times times({5, 1, 4, 2, 3});
  EXPECT_EQ(times.size(), 5u);
  EXPECT_DOUBLE_EQ(times.least(), 1);
  EXPECT_DOUBLE_EQ(times.most(), 5);
  EXPECT_DOUBLE_EQ(times.median(), 3);
  EXPECT_DOUBLE_EQ(times.quantile(0.95), 4.8);
  EXPECT_DOUBLE_EQ(Times({1, 2}).median(), 1.5);
}

TEST(Statistics, AreOfASample) {
  const Times times({2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_DOUBLE_EQ(times.mean(), 5);
  EXPECT_DOUBLE_EQ(times.deviation(), std::sqrt(32.0 / 7));
  EXPECT_DOUBLE_EQ(Times({3}).mean(), 3);
  EXPECT_DOUBLE_EQ(Times({3}).deviation(), 0);
}

class Clock : public testing::TestWithParam<Timing> {};
INSTANTIATE_TEST_SUITE_P(All, Clock,
                         testing::Values(Timing::graph, Timing::events, Timing::throughput,
                                         Timing::latency, Timing::loop, Timing::enqueue),
                         [](const auto& test) { return std::string(name_of(test.param)); });

/// Calls of rank 1 take 5 ms on its stream, and 1 ms until they return.
TEST_P(Clock, IsThatOfTheSlowestRank) {
  if (test::target() != BackendKind::host && GetParam() == Timing::graph)
    GTEST_SKIP() << "GPUs capture no host functions";
  constexpr int ranks = 2, calls = 4, warm_up = 2, repeats = 3;
  constexpr auto in_stream = std::chrono::milliseconds(5), in_call = std::chrono::milliseconds(1);
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  std::vector<Times> times(ranks);
  std::vector<double> wall_us(ranks);
  std::vector<int> enqueued(ranks);
  run_ranks(ranks, [&](Communicator& comm, int rank) {
    Options options;
    options.timing = GetParam();
    options.iterations = calls;
    options.warm_up = warm_up;
    options.repeats = repeats;
    const Stream stream = comm.create_stream();
    Timer timer(comm, stream.native(), options);
    const auto at = static_cast<std::size_t>(rank);
    const auto start = std::chrono::steady_clock::now();
    times[at] = timer.measure(
        [&](NativeStream on) {
          ++enqueued[at];
          if (rank != 1) return;
          backend_of(comm).host_call(on, [&] { std::this_thread::sleep_for(in_stream); });
          std::this_thread::sleep_for(in_call);
        },
        1024);
    const std::chrono::duration<double, std::micro> wall = std::chrono::steady_clock::now() - start;
    wall_us[at] = wall.count();
    EXPECT_EQ(timer.calls(), calls);
  });
  // With latency a sample is a call, else a repeat.
  const int samples = GetParam() == Timing::latency ? calls * repeats : repeats,
            calls_per_sample = calls * repeats / samples;
  EXPECT_EQ(samples_of(GetParam()), samples == repeats ? "repeats" : "calls");
  const int timed = GetParam() == Timing::graph ? calls : calls * repeats;
  EXPECT_THAT(enqueued, testing::Each(warm_up + timed));
  for (const Times& of_rank : times) {
    ASSERT_EQ(of_rank.size(), static_cast<std::size_t>(samples));
    EXPECT_DOUBLE_EQ(of_rank.median(), times[0].median()) << "ranks differ";
    EXPECT_GE(of_rank.least(), GetParam() == Timing::enqueue ? 1000 : 5000);
    if (GetParam() == Timing::enqueue) {
      EXPECT_LT(of_rank.least(), 5000) << "it waited for the stream";
    }
    // However busy the machine: the timed calls took no longer than all of the measurement.
    EXPECT_LE(of_rank.mean() * samples * calls_per_sample,
              *std::max_element(wall_us.begin(), wall_us.end()));
  }
}

/// Call 0 of each repeat is slow on rank 0 and call 1 on rank 1, the others on none. So two calls
/// of four are slow, and the loop takes as long as one of them, because neither rank waits.
TEST(Clock, TimesSingleCallsByTheirSlowestRank) {
  constexpr int ranks = 2, calls = 4, repeats = 3;
  constexpr auto slow = std::chrono::milliseconds(20);
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  run_ranks(ranks, [&](Communicator& comm, int rank) {
    const Stream stream = comm.create_stream();
    const auto measure = [&](Timing timing) {
      Options options;
      options.timing = timing;
      options.iterations = options.warm_up = calls;
      options.repeats = repeats;
      int call = 0;
      return Timer(comm, stream.native(), options)
          .measure(
              [&](NativeStream) {
                if (call++ % calls == rank) std::this_thread::sleep_for(slow);
              },
              1024);
    };
    const Times latency = measure(Timing::latency), loop = measure(Timing::loop);
    EXPECT_GE(latency.quantile(6.0 / 11), 20'000) << "a call that was slow on one rank";
    EXPECT_LT(latency.least(), 20'000) << "a call that was slow on none";
    EXPECT_GE(loop.least() * calls, 20'000);
    EXPECT_LT(loop.least() * calls, 40'000) << "the ranks' slow calls were not at once";
  });
}

}  // namespace
}  // namespace plait::bench
