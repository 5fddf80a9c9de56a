// Is enough explored? Each ordering word of the kernels is weakened once, and must then be found.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "model/scenario.hpp"

namespace plait::test {
namespace {

using model::Mutant;

std::string line_of(const Mutant& mutant) {
  std::ifstream file(mutant.file);
  std::string line;
  for (unsigned i = 0; i < mutant.line; ++i) std::getline(file, line);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}
std::string describe(const Mutant& mutant) {
  static constexpr const char* words[] = {"signal",  "wait",    "arrive", "barrier",
                                          "release", "acquire", "get",    "empty"};
  static constexpr const char* ways[] = {"", "relaxed", "left out", "one early"};
  return fmt::format("{}:{}: {} {}: {}", mutant.file, mutant.line,
                     words[static_cast<int>(mutant.word)], ways[static_cast<int>(mutant.how)],
                     line_of(mutant));
}

/// Words that nothing needs here, and why they stay.
bool is_explained(const Mutant& mutant) {
  // The offer of a buffer is the first thing that a launch says of it, and the beginning of a
  // launch is a fence here. But it need not be one for peers on every device: a GPU may still hold
  // what an earlier kernel wrote into the buffer, and write it back over what a peer stores there.
  return mutant.file.ends_with("messages/pairwise/straight.hpp") &&
         line_of(mutant).find("dev_.signal(offers(") == 0;
}

TEST(Mutants, AreAllFound) {
  std::set<Mutant> met, found;
  const UseProgram explore = [&](const Scenario& scenario, model::Explorer& explorer,
                                 const model::Program& program) {
    ASSERT_EQ(explorer.explore(program).failure, "") << scenario.describe();
    std::set<Mutant> left;
    std::set_difference(explorer.mutants().begin(), explorer.mutants().end(), found.begin(),
                        found.end(), std::inserter(left, left.end()));
    for (const Mutant& mutant : left) {
      // The words of this target are made of others.
      if (mutant.file.find("backends/model/") != std::string::npos) continue;
      met.insert(mutant);
      explorer.weaken(mutant);
      if (!explorer.explore(program).failure.empty()) found.insert(mutant);
    }
  };
  for (const int ranks : {3, 2, 4})
    for (const LaunchShape shape : {LaunchShape{1, 3}, LaunchShape{2, 2}}) {
      std::vector<Scenario> scenarios;
      for (const Subject& subject : explored_algorithms())
        for (const Where where : {Where::symmetric, Where::in_place, Where::ordinary})
          for (const int grouped : {1, 3}) {
            // With four ranks, what one has heard of another by a third matters.
            if (!fits(subject, where) || (ranks == 4 && subject.algorithm != "dissemination"))
              continue;
            // Slots of messages are larger, and take turns.
            const std::size_t many =
                subject.algorithm == "pairwise_push" && grouped == 1 ? 6000 : 100;
            scenarios.push_back({{subject}, ranks, shape, {40, 24, many, 8}, where, 4, grouped});
          }
      with_programs(scenarios, explore);
    }
  for (const Mutant& mutant : met)
    EXPECT_NE(found.contains(mutant), is_explained(mutant)) << describe(mutant);
  EXPECT_GT(met.size(), 80u);
  std::printf("%zu mutants, %zu found\n", met.size(), found.size());
}

}  // namespace
}  // namespace plait::test
