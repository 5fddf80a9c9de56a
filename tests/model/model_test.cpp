// All executions of the kernels that ship, for a few ranks, blocks, threads and calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <map>

#include "model/scenario.hpp"

namespace plait::test {
namespace {

constexpr LaunchShape one_thread{1, 1}, two_of_two{2, 2};
constexpr Where places[] = {Where::symmetric, Where::in_place, Where::ordinary};
/// Several rounds, one, and several again; the second list with parts of packs.
const std::vector<std::size_t> counts[] = {{24, 40, 100}, {41, 1, 9}};

/// Explores scenarios, and adds up what that took for each algorithm. Prints it as JSON at the end
/// of the program, for docs/benchmarks/data/explored.json.
class Exploration {
 public:
  explicit Exploration(std::size_t at_least) : at_least_(at_least) {}
  Exploration(const Exploration&) = delete;
  Exploration& operator=(const Exploration&) = delete;
  ~Exploration() { EXPECT_GE(scenarios_, at_least_); }

  void explore(const std::vector<Scenario>& scenarios) {
    with_programs(scenarios, [&](const Scenario& scenario, model::Explorer& explorer,
                                 const model::Program& program) {
      const auto begin = std::chrono::steady_clock::now();
      const model::Result result = explorer.explore(program);
      EXPECT_EQ(result.failure.substr(0, 20'000), "") << scenario.describe();
      EXPECT_TRUE(result.complete) << scenario.describe();
      ++scenarios_;
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      for (const Subject& subject : scenario.subjects) {
        Sum& sum = sums()[subject.algorithm];
        ++sum.scenarios;
        sum.executions += result.executions;
        sum.steps += result.steps;
        sum.seconds += seconds.count() / static_cast<double>(scenario.subjects.size());
      }
    });
  }

  static void print() {
    for (const auto& [algorithm, sum] : sums())
      fmt::print(R"({{"what": "`{}`", "scenarios": {}, "executions": {}, )"
                 R"("steps": {}, "seconds": {:.1f}}},)"
                 "\n",
                 algorithm, sum.scenarios, sum.executions, sum.steps, sum.seconds);
  }

 private:
  struct Sum {
    std::size_t scenarios = 0, executions = 0, steps = 0;
    double seconds = 0;
  };
  static std::map<std::string, Sum>& sums() {
    static std::map<std::string, Sum> all;
    return all;
  }

  std::size_t at_least_, scenarios_ = 0;
};
struct AtTheEnd final : testing::Environment {
  void TearDown() override { Exploration::print(); }
};
[[maybe_unused]] const testing::Environment* const at_the_end =
    testing::AddGlobalTestEnvironment(new AtTheEnd);

TEST(Model, EveryAlgorithm) {
  Exploration all(1000);
  for (const int ranks : {2, 3})
    for (const LaunchShape shape : {one_thread, two_of_two}) {
      std::vector<Scenario> scenarios;
      for (const Subject& subject : explored_algorithms())
        for (const Where where : places)
          for (const auto& elements : counts)
            if (fits(subject, where))
              scenarios.push_back({{subject}, ranks, shape, elements, where});
      all.explore(scenarios);
    }
}

/// Kernels have cases for four ranks.
TEST(Model, FourRanks) {
  Exploration all(50);
  std::vector<Scenario> scenarios;
  for (const Subject& subject : explored_algorithms())
    scenarios.push_back({{subject}, 4, {1, 2}, counts[0], Where::symmetric});
  all.explore(scenarios);
}

TEST(Model, Groups) {
  Exploration all(100);
  for (const int ranks : {2, 3}) {
    std::vector<Scenario> scenarios;
    for (const Subject& subject : explored_algorithms())
      scenarios.push_back({{subject}, ranks, two_of_two, counts[0], Where::symmetric, 2, 3});
    all.explore(scenarios);
  }
}

/// Algorithms share slots, signals and counters.
TEST(Model, TwoAlgorithmsInTurn) {
  Exploration all(1000);
  const std::vector<Subject> subjects = explored_algorithms();
  std::vector<Scenario> scenarios;
  for (std::size_t i = 0; i < subjects.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      scenarios.push_back(
          {{subjects[i], subjects[j]}, 2, two_of_two, {40, 20, 8}, Where::symmetric, 5});
  all.explore(scenarios);
}

/// A rank does nothing more after so many steps. The others give up and end, and none of their
/// threads waits for one of its block that has left.
TEST(Model, ARankStops) {
  Exploration all(1000);
  for (const int ranks : {2, 3}) {
    std::vector<Scenario> scenarios;
    for (const Subject& subject : explored_algorithms())
      for (std::size_t steps = 1; steps < 200; steps += 13) {
        scenarios.push_back({{subject}, ranks, two_of_two, {40}, Where::symmetric, 2});
        scenarios.back().stop = model::Stop{static_cast<int>(steps) % ranks, steps};
      }
    all.explore(scenarios);
  }
}

}  // namespace
}  // namespace plait::test
