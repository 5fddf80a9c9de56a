// Each ordering word of a program is weakened once, and must then be found.
#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "backends/model/explorer.hpp"

namespace plait::test {

using model::Mutant;

inline std::string line_of(const Mutant& mutant) {
  std::ifstream file(std::string(PLAIT_SOURCE_DIR "/") + mutant.file);
  std::string line;
  for (unsigned i = 0; i < mutant.line; ++i) std::getline(file, line);
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}
inline std::string describe(const Mutant& mutant) {
  static constexpr const char* words[] = {"signal",  "wait",    "arrive", "barrier",
                                          "release", "acquire", "get",    "empty"};
  static constexpr const char* ways[] = {"", "relaxed", "left out", "one early"};
  return fmt::format("{}:{}: {} {}: {}", mutant.file, mutant.line,
                     words[static_cast<int>(mutant.word)], ways[static_cast<int>(mutant.how)],
                     line_of(mutant));
}

/// Words that nothing needs here, and that stay. The beginning and the end of a launch are fences
/// of the explorer. But for peers they need not be on every device: a GPU may still hold what an
/// earlier kernel wrote into a buffer that is offered, and write it back over what a peer stores
/// there; and a kernel behind a wait may find what a cache has kept of a peer's memory.
inline bool is_explained(const Mutant& mutant) {
  const std::string line = line_of(mutant);
  return (mutant.file.ends_with("messages/pairwise/straight.hpp") &&
          line.starts_with("dev_.signal(offers(")) ||
         (mutant.file.ends_with("messages/one_sided/kernel.hpp") &&
          line.starts_with("dev_.wait(") && mutant.how == model::Weakening::to_relaxed);
}

/// The words of all programs that it is given.
class Mutants {
 public:
  void look_at(model::Explorer& explorer, const model::Program& program) {
    ASSERT_EQ(explorer.explore(program).failure.substr(0, 10'000), "");
    std::set<Mutant> left;
    std::set_difference(explorer.mutants().begin(), explorer.mutants().end(), found_.begin(),
                        found_.end(), std::inserter(left, left.end()));
    for (const Mutant& mutant : left) {
      // The words of this target are made of others.
      if (mutant.file.starts_with("backends/model/")) continue;
      met_.insert(mutant);
      explorer.weaken(mutant);
      if (!explorer.explore(program).failure.empty()) found_.insert(mutant);
    }
  }
  void expect_all_found() const {
    for (const Mutant& mutant : met_)
      EXPECT_NE(found_.contains(mutant), is_explained(mutant)) << describe(mutant);
    fmt::print("{} mutants, {} found\n", met_.size(), found_.size());
  }
  std::size_t met() const { return met_.size(); }

 private:
  std::set<Mutant> met_, found_;
};

}  // namespace plait::test
