// Counters that wrap, as signed and as unsigned numbers, in all executions.
#include <gtest/gtest.h>

#include "model/scenario.hpp"
#include "support/aged.hpp"

namespace plait::test {
namespace {

TEST(ModelOfWraps, NothingHappensAtTwoToThe32OrThe31) {
  for (const int ranks : {2, 3}) {
    std::vector<Scenario> scenarios;
    for (const Subject& subject : aged())
      for (const std::uint32_t end : {0u, 0x80000000u})
        for (const std::uint32_t before : {1u, 2u, 4u})
          if (is_explored(subject))
            scenarios.push_back({.subjects = {subject},
                                 .ranks = ranks,
                                 .shape = {1, 2},
                                 .counts = {24, 40, 100},
                                 .age = end - before});
    std::size_t explored = 0;
    with_programs(scenarios, [&](const Scenario& scenario, model::Explorer& explorer,
                                 const model::Program& program) {
      EXPECT_EQ(explorer.explore(program).failure.substr(0, 10'000), "") << scenario.describe();
      ++explored;
    });
    EXPECT_EQ(explored, scenarios.size());
  }
}

}  // namespace
}  // namespace plait::test
