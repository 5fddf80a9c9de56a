// Every registered algorithm of every collective but all-reduce (which has zoo_test) and the
// barrier, on 1 to 8 ranks that are threads.
#include "algorithms/contract/collectives.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "support/errors.hpp"
#include "support/ranks.hpp"
#include "support/zoo.hpp"

namespace plait::test {
namespace {

class Collectives : public testing::TestWithParam<std::tuple<Subject, int>> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(ranks()); }
  const Subject& subject() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  void run(const RankGroup::Body& body) const { RankGroup::cached(ranks()).run(body); }
};
// Ordered by ranks: the memory of one group of communicators is kept from test to test.
INSTANTIATE_TEST_SUITE_P(All, Collectives,
                         testing::Combine(testing::ValuesIn(other_algorithms()),
                                          testing::Range(1, under_tsan ? 6 : 9)),
                         [](const auto& test) {
                           const Subject& subject = std::get<0>(test.param);
                           return fmt::format("{}_{}_n{}", name_of(subject.collective),
                                              subject.algorithm, std::get<1>(test.param));
                         });

TEST_P(Collectives, AllTypesAndOperations) {
  const std::vector<std::size_t> counts =
      under_tsan ? std::vector<std::size_t>{64, 67} : std::vector<std::size_t>{1, 64, 515};
  run([&](Communicator& comm, Arena& arena) {
    check_all_types_and_operations(comm, arena, subject(), counts);
  });
}

TEST_P(Collectives, AllCounts) {
  using enum DataType;
  run([&](Communicator& comm, Arena& arena) {
    check_all_counts(comm, arena, subject(),
                     under_tsan ? std::vector{bf16} : std::vector{i8, bf16, f64});
  });
}

TEST_P(Collectives, Large) {
  run([&](Communicator& comm, Arena& arena) {
    check_large(comm, arena, subject(), under_tsan ? 20000 : 500000);
  });
}

TEST_P(Collectives, LaunchShapes) {
  run([&](Communicator& comm, Arena& arena) { check_launch_shapes(comm, arena, subject()); });
}

TEST_P(Collectives, InGraphsAndGroups) {
  run([&](Communicator& comm, Arena& arena) {
    const Stream stream = comm.create_stream();
    std::uint64_t seed = 0;
    for (const Way way : {Way::captured, Way::grouped})
      for (const bool symmetric : {false, true})
        for (const bool in_place : {false, true})
          for (const std::size_t count : {5u, 1024u}) {
            const Case c = subject().of({.type = DataType::i32,
                                         .count = count,
                                         .in_place = in_place,
                                         .symmetric = symmetric,
                                         .root = comm.size() - 1,
                                         .seed = ++seed,
                                         .way = way});
            if (is_served(comm, c)) check(comm, arena, c, stream);
          }
  });
}

class Mixed : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { PLAIT_SKIP_UNLESS_RANKS_FIT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, Mixed, testing::Range(1, under_tsan ? 6 : 9),
                         [](const auto& test) { return fmt::format("n{}", test.param); });

/// Calls follow each other in every order: what one leaves in shared memory must not disturb the
/// next. Without waiting in between, so that ranks run ahead of each other as far as they can.
TEST_P(Mixed, CollectivesFollowEachOther) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena&) {
    constexpr std::size_t at_once = 10, longest = 5000;
    std::vector<std::unique_ptr<Arena>> arenas;
    std::vector<Arena*> each;
    for (std::size_t i = 0; i < at_once; ++i) {
      arenas.push_back(std::make_unique<Arena>(
          comm, (longest * static_cast<std::size_t>(comm.size()) + 10) * sizeof(std::uint64_t)));
      each.push_back(arenas.back().get());
    }
    const Stream stream = comm.create_stream();
    const auto subjects = other_algorithms();
    for (std::uint64_t i = 0; i < (under_tsan ? 100 : 400);) {
      std::vector<Case> cases;
      for (; cases.size() < at_once; ++i) {
        const std::uint64_t h = hash(i);
        const Subject& subject = subjects[h % subjects.size()];
        cases.push_back(
            subject.of({.type = DataType::u64,
                        .count = 1 + (h >> 10) % (i % 7 == 0 ? longest : 200),
                        .in_place = (h >> 32) % 2 == 0,
                        .symmetric = (h >> 33) % 2 == 0,
                        .root = static_cast<int>((h >> 34) % static_cast<unsigned>(comm.size())),
                        .seed = h}));
      }
      check_together(comm, each, cases, stream);
    }
    comm.bootstrap().barrier();  // no rank frees memory that a slower one still checks
  });
}

TEST_P(Mixed, WhatIsChosenIsRight) {
  RankGroup::cached(GetParam()).run([](Communicator& comm, Arena& arena) {
    for (int c = 1; c < collective_count; ++c) {
      const Subject chosen(static_cast<Collective>(c), "");
      if (chosen.collective == Collective::barrier) continue;
      check_all_types_and_operations(comm, arena, chosen, {33});
      check_all_counts(comm, arena, chosen, {DataType::f32});
      check_large(comm, arena, chosen, under_tsan ? 20000 : 500000);
    }
  });
}

}  // namespace
}  // namespace plait::test
