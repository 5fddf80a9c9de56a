// Rings and chains in another order than that of the ranks.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "communicator/selection/selection.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/forwarding_backend.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

using Order = std::vector<int>;

const std::vector<Subject>& subjects() {
  using enum Collective;
  static const std::vector<Subject> all{
      {"ring"}, {broadcast, "chain"}, {reduce, "chain"}, {scan, "chain"}, {exscan, "chain"}};
  return all;
}

class RingOrders : public testing::TestWithParam<Order> {};
INSTANTIATE_TEST_SUITE_P(All, RingOrders,
                         testing::Values(Order{1, 0}, Order{1, 0, 2}, Order{0, 2, 1, 3},
                                         Order{3, 1, 0, 4, 2}),
                         [](const auto& order) { return fmt::format("n{}", order.param.size()); });

TEST_P(RingOrders, GiveTheSameResults) {
  const int ranks = static_cast<int>(GetParam().size());
  PLAIT_SKIP_UNLESS_RANKS_FIT(ranks);
  const ScopedEnvironment order("PLAIT_RING", fmt::format("{}", fmt::join(GetParam(), ",")));
  RankGroup group(ranks);
  group.run([](Communicator& comm, Arena& arena) {
    EXPECT_EQ(selector_of(comm).topology().ring, GetParam());
    for (const Subject& subject : subjects()) {
      check_all_counts(comm, arena, subject, {DataType::bf16});
      check_all_types_and_operations(comm, arena, subject, {67});
      check_large(comm, arena, subject, 20000);
    }
    check_calls_in_a_row(comm, subjects(), 100);
    for (int root = 0; root < comm.size(); ++root)
      for (const Subject& subject : subjects())
        check(comm, arena,
              subject.of({.count = 4099u + static_cast<unsigned>(root), .root = root}));
  });
}

TEST(PlaitRing, IsTheOrderOfSums) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(4);
  const ScopedEnvironment order("PLAIT_RING", "0,2,1,3");
  RankGroup group(4);
  group.run([](Communicator& comm, Arena& arena) {
    constexpr float terms[] = {1e8F, 1, -1e8F, 0};  // in the order of ranks their sum is 0
    arena.send.put<float>(1, [&](std::size_t) { return terms[comm.rank()]; });
    arena.recv.place(0, sizeof(float));
    comm.reduce(arena.send.device(), arena.recv.device(), 1, DataType::f32, ReduceOp::sum, 3, {},
                {.algorithm = "chain"});
    arena.recv.download({});
    comm.synchronize();
    if (comm.rank() == 3) {
      EXPECT_EQ(arena.recv.get<float>(0), 1.0F);
    }
  });
}

TEST(PlaitRing, IsForAsManyRanks) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment order("PLAIT_RING", "2,1,0");
  run_ranks(
      2, [](Communicator& comm, int) { EXPECT_TRUE(selector_of(comm).topology().ring.empty()); });
}

TEST(PlaitRing, RefusesWhatIsNoOrder) {
  PLAIT_SKIP_UNLESS_RANKS_FIT(2);
  const ScopedEnvironment order("PLAIT_RING", "1,2");
  with_bootstraps(2, [](std::unique_ptr<Bootstrap> bootstrap, int) {
    expect_invalid([&] { Communicator::create(std::move(bootstrap), test_options()); },
                   "PLAIT_RING=\"1,2\"", "0 to 1");
  });
}

/// The host in the place of GPUs, the even and the odd of which are linked.
class Linked final : public HostAsCuda {
 public:
  explicit Linked(int ordinal) : HostAsCuda(ordinal, fmt::format("{}", ordinal)) {}
  std::vector<int> links_to(std::span<const std::string> ids) const override {
    std::vector<int> links;
    for (const std::string& id : ids)
      links.push_back((std::stoi(id) + info().ordinal) % 2 == 0 ? 2 : 1);
    return links;
  }
};

TEST(RingOrder, IsThatOfTheLinksOnAllRanks) {
  if (target() != BackendKind::host) return;  // whose devices would be in the way
  static_cast<void>(stand_in_for_cuda<Linked>());
  run_ranks(5,
            [](Communicator& comm, int) {
              EXPECT_EQ(selector_of(comm).topology().ring, (Order{0, 2, 1, 3, 4}));
            },
            {.backend = BackendKind::cuda});
}

}  // namespace
}  // namespace plait::test
