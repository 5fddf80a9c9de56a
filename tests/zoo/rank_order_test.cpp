// Every algorithm that says it reduces floats in rank order, or in a tree, does: it gives the bits
// of a plain sum of the ranks' terms in that order.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "communicator/selection/selection.hpp"
#include "support/covering.hpp"
#include "support/placed.hpp"
#include "support/ranks.hpp"

namespace plait::test {
namespace {

constexpr ReduceOp float_operations[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min,
                                         ReduceOp::max, ReduceOp::avg,  ReduceOp::premul_sum};

/// Calls body<T>() for all floats.
template <class Body>
void for_floats(Body body) {
  body.template operator()<float>();
  body.template operator()<double>();
  body.template operator()<f16>();
  body.template operator()<bf16>();
  body.template operator()<f8e4m3>();
  body.template operator()<f8e5m2>();
}

std::vector<int> order_from(int first, int ranks) {
  std::vector<int> order(static_cast<std::size_t>(ranks));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + first, order.end());
  return order;
}

/// What the tests below rest on: sums that begin at another rank, or are rounded on their way, have
/// other bits, in several of the sets of terms.
TEST(Terms, TellOrdersApart) {
  for (int ranks = 3; ranks <= 8; ++ranks)
    for_floats([&]<class T>() {
      const Terms<T> terms(ranks);
      const std::string what = fmt::format("{}, {} ranks", name_of(data_type_of<T>), ranks);
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::premul_sum}) {
        if (sizeof(T) <= 2) {
          EXPECT_GE(terms.differing(op, order_from(0, ranks), true), 5u) << "rounded, " << what;
        }
        // Sums of f8e4m3 in f32 lose nothing that the result could show.
        if (std::is_same_v<T, f8e4m3>) continue;
        for (int first = 1; first < ranks; ++first)
          EXPECT_GE(terms.differing(op, order_from(first, ranks), false), 5u)
              << "from " << first << ", " << name_of(op) << ", " << what;
      }
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
        EXPECT_GE(terms.differing(op, order_from(1, ranks), false), 3u) << "zeros, " << what;
    });
  for_floats([&]<class T>() {
    const Terms<T> two(2);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::avg, ReduceOp::premul_sum})
      EXPECT_EQ(two.differing(op, {1, 0}, false), 0u) << "two terms commute";
    EXPECT_GE(two.differing(ReduceOp::min, {1, 0}, false), 3u) << "but zeros do not";
    if (sizeof(T) <= 2) {
      EXPECT_GE(two.differing(ReduceOp::premul_sum, {0, 1}, true), 5u);
    }
  });
}

/// What `reproducible_tree` rests on: fewer terms that are each the tree of a part have one tree.
TEST(Terms, HaveOneTreeOnAnyNumberOfRanks) {
  for_floats([&]<class T>() {
    const Terms<T> all(8);
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max})
      for (const int ranks : {1, 2, 4}) {
        const Terms<T> sums(all, op, ranks);
        std::size_t in_turn = 0;
        for (std::size_t i = 0; i < Terms<T>::period; ++i) {
          const auto wanted = Terms<T>::bits(all.in_order(SumOrder::tree, op, i, 8));
          ASSERT_EQ(Terms<T>::bits(sums.in_order(SumOrder::tree, op, i, ranks)), wanted)
              << name_of(op) << " of " << name_of(data_type_of<T>) << ", " << ranks << " ranks";
          if (Terms<T>::bits(all.in_rank_order(op, i)) != wanted) ++in_turn;
        }
        if (op == ReduceOp::sum) {
          EXPECT_GE(in_turn, 5u) << "rank order has other bits";
        }
      }
  });
}

PLAIT_FOR_RANKS(RankOrder, testing::Range(1, under_tsan ? 6 : 9));

/// Makes calls of all algorithms that serve them in a communicator of the policy, and returns their
/// names.
std::set<std::string> check_claims(Communicator& comm, Arena& arena, SumOrder order) {
  std::vector<Subject> subjects = all_algorithms();
  std::erase_if(subjects,
                [](const Subject& subject) { return !facts_of(subject.collective).reduces; });
  std::set<std::string> claiming;
  std::uint64_t round = 0;
  for_floats([&]<class T>() {
    const Terms<T> terms(comm.size());
    for (const Subject& subject : subjects)
      for (const ReduceOp op : float_operations) {
        if (op == ReduceOp::avg && is_scan(subject.collective)) continue;
        for (std::size_t i = 0; i < unless_full(1, 4); ++i) {  // of four places
          const std::uint64_t h = hash(++round);
          const std::uint64_t place = round + static_cast<unsigned>(comm.size());
          const Placing placing{
              .collective = subject.collective,
              .algorithm = subject.algorithm,
              .op = op,
              .count = h % 3 == 0 ? 3072u : 1008u,
              .symmetric = place / 2 % 2 == 1,
              .in_place = place % 2 == 1,
              .offset = (h >> 8) % 2,
              .first = h % 1000,
              .root = static_cast<int>((h >> 16) % static_cast<unsigned>(comm.size())),
              .blocks = static_cast<unsigned>((h >> 32) % 4),
              .order = order};
          if (!is_served(comm, placing.as_case(data_type_of<T>))) continue;
          claiming.insert(fmt::format("{} {}", name_of(subject.collective), subject.algorithm));
          Placed<T> call(comm, arena, terms, placing);
          call.enqueue();
          comm.synchronize();
          call.wrong();
        }
      }
  });
  return claiming;
}

TEST_P(RankOrder, IsThatOfAllThatClaimIt) {
  RankGroup(GetParam(), reproducible(SumOrder::ranks)).run([](Communicator& comm, Arena& arena) {
    const std::set<std::string> claiming = check_claims(comm, arena, SumOrder::ranks);
    // The policy has an algorithm for every size in any memory, and one hop for small messages.
    for (const char* name :
         {"all_reduce oneshot_ll", "all_reduce twoshot_ll", "all_reduce stream",
          "all_reduce twoshot", "reduce_scatter direct_ll", "reduce_scatter direct_push",
          "reduce direct_ll", "reduce direct_push", "scan oneshot_ll", "exscan oneshot_ll"})
      EXPECT_TRUE(claiming.contains(name)) << name;
  });
}

TEST_P(RankOrder, ATreeIsThatOfAllThatClaimIt) {
  RankGroup(GetParam(), reproducible(SumOrder::tree)).run([](Communicator& comm, Arena& arena) {
    const std::set<std::string> claiming = check_claims(comm, arena, SumOrder::tree);
    for (const char* name :
         {"all_reduce stream", "all_reduce twoshot", "reduce_scatter direct_push",
          "reduce direct_push", "scan direct_push"})
      EXPECT_TRUE(claiming.contains(name)) << name;
    const bool is_power_of_two = (comm.size() & (comm.size() - 1)) == 0;
    for (const char* name : {"all_reduce recursive_doubling", "all_reduce halving_doubling"})
      EXPECT_EQ(claiming.contains(name), is_power_of_two) << name;
  });
}

}  // namespace
}  // namespace plait::test
