// How a communicator is made reproducible, what it refuses then, and what it says of itself.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/placed.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReproducibleOption : public testing::Test {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(3); }
};

constexpr Call middling{.count = 10000};

TEST_F(ReproducibleOption, RefusesOtherAlgorithms) {
  RankGroup(3, reproducible(SumOrder::ranks)).run([](Communicator& comm, Arena& arena) {
    auto* const data = static_cast<float*>(arena.recv.device());
    const auto sum = [&](DataType type, const char* algorithm) {
      comm.all_reduce(data, data, 100, type, ReduceOp::sum, {}, {.algorithm = algorithm});
    };
    expect_invalid([&] { sum(DataType::f32, "ring"); },
                   fmt::format("all_reduce: rank {}: algorithm ring: it does not reduce f32 "
                               "in rank order, which a reproducible communicator requires",
                               comm.rank()));
    expect_throws(
        ErrorCode::unsupported, [&] { sum(DataType::f32, "p2p"); },
        "policy p2p: none of its algorithms serves this call of a reproducible "
        "communicator");
    sum(DataType::i32, "ring");  // integers have one sum
    sum(DataType::f32, "stream");
    sum(DataType::f32, "yali");
    comm.synchronize();
  });
}

TEST_F(ReproducibleOption, SaysWhatItDoes) {
  RankGroup(3, reproducible(SumOrder::ranks)).run([](Communicator& comm, Arena&) {
    const std::string text = comm.explain(middling);
    EXPECT_THAT(text, HasSubstr("\n  reproducible: only algorithms that reduce in rank order\n"));
    EXPECT_THAT(text, HasSubstr("  ring                 no: it does not reduce f32 in rank order"));
    Call of_integers = middling;
    of_integers.type = DataType::u32;
    EXPECT_THAT(comm.explain(of_integers),
                HasSubstr("\n  reproducible: all algorithms give the same bits here\n"));
    Call moves = middling;
    moves.collective = Collective::broadcast;
    EXPECT_THAT(comm.explain(moves), HasSubstr("all algorithms give the same bits here"));
  });
  RankGroup::cached(3).run([](Communicator& comm, Arena&) {
    EXPECT_THAT(comm.explain(middling), Not(HasSubstr("reproducible")));
    EXPECT_THAT(comm.explain(middling, {.algorithm = "reproducible"}),
                HasSubstr("by policy reproducible: "));
  });
}

void expect_reproducible(const Communicator& comm, bool yes = true) {
  const std::string text = comm.explain(middling);
  EXPECT_EQ(text.find("\n  reproducible: ") != std::string::npos, yes) << text;
}

TEST_F(ReproducibleOption, PartsAndDuplicatesInheritIt) {
  RankGroup(3, reproducible(SumOrder::ranks)).run([](Communicator& comm, Arena&) {
    expect_reproducible(comm);
    {
      Communicator copy = comm.duplicate();
      expect_reproducible(copy);
      const std::optional<Communicator> part = copy.split(comm.rank() == 0 ? 1 : 0, 0);
      expect_reproducible(*part);
    }
    comm.bootstrap().barrier();
  });
}

TEST_F(ReproducibleOption, ByTheOptionOfADeviceGroup) {
  DeviceGroupOptions options;
  options.backend = target();
  options.reproducible_tree = true;
  const DeviceGroup group = DeviceGroup::first(3, options);
  for (int rank = 0; rank < 3; ++rank) expect_reproducible(group.device(rank));
}

TEST_F(ReproducibleOption, ByEnvironment) {
  for (const char* const policy : {" reproducible ", "reproducible_tree"}) {
    const ScopedEnvironment environment("PLAIT_ALGO", policy);
    run_ranks(3, [](Communicator& comm, int) { expect_reproducible(comm); });
  }
}

TEST_F(ReproducibleOption, ATreeHasOtherAlgorithms) {
  RankGroup(4, reproducible(SumOrder::tree)).run([](Communicator& comm, Arena&) {
    EXPECT_THAT(comm.explain(middling),
                HasSubstr("\n  reproducible: only algorithms that reduce in a tree\n"));
    Call small{.count = 1};
    EXPECT_EQ(comm.chosen(small), "recursive_doubling");
    EXPECT_THAT(comm.explain(small),
                HasSubstr("oneshot_ll           no: it does not reduce f32 in a tree"));
    small.type = DataType::i32;
    EXPECT_NE(comm.chosen(small), "recursive_doubling");
    const Call scan{.collective = Collective::scan, .count = 1};
    EXPECT_THAT(comm.explain(scan), HasSubstr("only algorithms that reduce in rank order"));
    EXPECT_THAT(comm.explain(small, {.algorithm = "reproducible"}),
                HasSubstr("all algorithms give the same bits"));
    EXPECT_THAT(comm.explain(middling, {.algorithm = "reproducible"}),
                HasSubstr("only algorithms that reduce in rank order"));
  });
}

/// Rules give way where they name another algorithm.
TEST_F(ReproducibleOption, TakesRulesThatFit) {
  const ScopedEnvironment environment("PLAIT_ALGO", "ring;0-4K=oneshot_ll;reduce:chain");
  run_ranks(3, reproducible(SumOrder::ranks), [](Communicator& comm, int) {
    Call call{.count = 64};
    EXPECT_EQ(comm.chosen(call), "oneshot_ll");
    EXPECT_NE(comm.chosen(middling), "ring");
    call.type = DataType::i64;
    EXPECT_EQ(comm.chosen(call), "ring");
    call.collective = Collective::reduce;
    EXPECT_EQ(comm.chosen(call), "chain");
    call.type = DataType::f64;
    EXPECT_NE(comm.chosen(call), "chain");
  });
}

TEST_F(ReproducibleOption, IsAgreedOn) {
  with_bootstraps(3, [](std::unique_ptr<Bootstrap> bootstrap, int rank) {
    CommunicatorOptions options = test_options();
    options.reproducible = rank == 2;
    expect_throws(
        ErrorCode::mismatch, [&] { Communicator::create(std::move(bootstrap), options); },
        "reproducible=1");
  });
}

}  // namespace
}  // namespace plait::test
