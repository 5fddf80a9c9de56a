// Epochs and counters near 2^32: every algorithm once more under another name, with memory that has
// seen four billion calls.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/aged.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_algorithm.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;

/// For all algorithms and their twins, and not more: each test makes its communicators anew.
constexpr std::size_t scratch_megabytes = 64;

/// Does not ask for the memory that oneshot_ll shares.
struct Careless final : ForwardingAlgorithm {
  Careless() : ForwardingAlgorithm("careless", "oneshot_ll") {}
  SharedResources shared(const Topology&) const override { return {}; }
};

class Wrap : public testing::TestWithParam<std::tuple<Subject, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const Subject& original() const { return std::get<0>(GetParam()); }
  Subject twin() const { return twin_of(original()); }
  int ranks() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Wrap,
                         testing::Combine(testing::ValuesIn(aged()), testing::Values(2, 3)),
                         TestName());

TEST(SharedMemory, OfAnAlgorithmThatDidNotAskForIt) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  static const AlgorithmRegistration<Careless> careless;
  run_ranks(2, [](Communicator& comm, int) {
    Arena arena(comm);
    void* const data = arena.symmetric_send.device();
    const auto error = error_of([&] {
      comm.all_reduce(data, data, 100, DataType::i32, ReduceOp::sum, {}, {.algorithm = "careless"});
    });
    ASSERT_TRUE(error.has_value());
    EXPECT_THAT(error->what(),
                HasSubstr("the algorithm uses shared memory that its shared() did not ask for"));
  });
}

TEST_P(Wrap, NothingHappensAtTwoToThe32OrThe31) {
  const ScopedEnvironment scratch("PLAIT_SCRATCH_BYTES", fmt::format("{}M", scratch_megabytes));
  RankGroup(ranks()).run([&](Communicator& comm, Arena& arena) {
    for (const std::uint32_t end : {0u, 0x80000000u}) {
      make_old(comm, twin(), end - 64u, scratch_megabytes << 20);
      for (std::uint64_t i = 0; i < 120; ++i)
        check(comm, arena,
              twin().of({.type = end == 0 ? DataType::f32 : DataType::bf16,
                         .count = 50 + 31 * i,
                         .in_place = i % 2 == 0,
                         .symmetric = true,
                         .root = static_cast<int>(i % static_cast<unsigned>(comm.size())),
                         .blocks = static_cast<unsigned>(1 + i % 2),
                         .seed = i}));
    }
  });
}

}  // namespace
}  // namespace plait::test
