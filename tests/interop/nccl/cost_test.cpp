// What a call through NCCL's interface costs more than one through Plait's own.
#include <algorithm>
#include <cstdio>

#include "interop/nccl/ranks.hpp"
#include "plait/communicator.hpp"
#include "plait/group.hpp"

namespace plait::nccl::test {
namespace {

/// The least time of a call in many rounds, in microseconds: other programs only make it longer.
template <class Call>
double time_of(const Call& call) {
  constexpr int rounds = 200, calls = 200;
  double least = 1e9;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    least = std::min(least, took.count() / calls);
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
  const double direct = time_of(
      [&] { plait.all_reduce(data.data(), data.data(), 4, DataType::i32, ReduceOp::sum, plaits); });
  const double through = time_of(
      [&] { ncclAllReduce(data.data(), data.data(), 4, int32, op_sum, own[0], stream.get()); });
  std::printf("all_reduce %.3f us, ncclAllReduce %.3f us\n", direct, through);
  EXPECT_LE(through, direct + 0.3);
  const double group = time_of([&] {
    const plait::Group both;
    plait.all_reduce(data.data(), data.data(), 4, DataType::i32, ReduceOp::sum, plaits);
  });
  const double nccl_group = time_of([&] {
    ncclGroupStart();
    ncclAllReduce(data.data(), data.data(), 4, int32, op_sum, own[0], stream.get());
    ncclGroupEnd();
  });
  std::printf("in a group: %.3f us, %.3f us\n", group, nccl_group);
  EXPECT_LE(nccl_group, group + 0.3);
}

}  // namespace
}  // namespace plait::nccl::test
