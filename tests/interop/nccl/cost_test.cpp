// What a call through NCCL's interface costs more than one through Plait's own.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "interop/nccl/ranks.hpp"
#include "plait/communicator.hpp"
#include "plait/group.hpp"

namespace plait::nccl::test {
namespace {

/// The least times of two calls in many rounds, in microseconds: other programs only make them
/// longer. They take turns, so that a machine which slows down does so for both.
template <class First, class Second>
std::pair<double, double> times_of(const First& first, const Second& second) {
  constexpr int rounds = 200, calls = 200;
  const auto time_of = [](const auto& call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    return took.count() / calls;
  };
  std::pair<double, double> least(1e9, 1e9);
  for (int round = 0; round < rounds; ++round) {
    least.first = std::min(least.first, time_of(first));
    least.second = std::min(least.second, time_of(second));
  }
  return least;
}

TEST(Cost, ACallTakesAtMostThreeTenthsOfAMicrosecondMore) {
  const OwnRanks own(1);
  CommunicatorOptions options;
  options.backend = BackendKind::host;
  Communicator plait = Communicator::create(std::move(make_thread_bootstraps(1).front()), options);
  // In place and alone there is no launch, so the time is that of the way to it.
  std::vector<std::int32_t> data(4);
  const HostStream stream(own[0]);
  const StreamRef plaits(stream.get());
  const auto call = [&] {
    plait.all_reduce(data.data(), data.data(), 4, DataType::i32, ReduceOp::sum, plaits);
  };
  const auto nccl_call = [&] {
    ncclAllReduce(data.data(), data.data(), 4, int32, op_sum, own[0], stream.get());
  };
  const auto [direct, through] = times_of(call, nccl_call);
  std::printf("all_reduce %.3f us, ncclAllReduce %.3f us\n", direct, through);
  EXPECT_LE(through, direct + 0.3);
  const auto [group, nccl_group] = times_of(
      [&] {
        const plait::Group both;
        call();
      },
      [&] {
        ncclGroupStart();
        nccl_call();
        ncclGroupEnd();
      });
  std::printf("in a group: %.3f us, %.3f us\n", group, nccl_group);
  EXPECT_LE(nccl_group, group + 3 * 0.3) << "three calls through NCCL's interface";
}

}  // namespace
}  // namespace plait::nccl::test
