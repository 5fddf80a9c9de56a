#include "support/covering.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>

namespace plait::test {
namespace {

/// All pairs that a slow search finds in the whole product are in the covering.
TEST(Covering, HasEveryPairThatFits) {
  const Levels sizes = {5, 1, 7, 3};
  const auto fits = [](const Levels& l) { return (l[0] * l[2]) % 3 != 1 && l[0] + l[3] != 2; };
  using Pair = std::tuple<std::size_t, std::size_t, std::size_t, std::size_t>;
  std::set<Pair> wanted;
  for (std::size_t i = 0; i < 5 * 7 * 3; ++i)
    if (const Levels l = {i % 5, 0, i / 5 % 7, i / 35}; fits(l))
      for (std::size_t f = 0; f < 4; ++f)
        for (std::size_t g = 0; g < 4; ++g) wanted.insert({f, l[f], g, l[g]});
  std::set<std::vector<Levels>> all;
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::set<Pair> met;
    const auto cases = covering(sizes, seed, fits);
    for (const Levels& l : cases) {
      EXPECT_TRUE(fits(l));
      for (std::size_t f = 0; f < 4; ++f)
        for (std::size_t g = 0; g < 4; ++g) met.insert({f, l[f], g, l[g]});
    }
    EXPECT_EQ(met, wanted);
    all.insert(cases);
    EXPECT_LE(cases.size(), unless_full(42, 105));  // 35 pairs of the two largest factors
  }
  EXPECT_EQ(all.size(), 3u) << "seeds change nothing";
}

}  // namespace
}  // namespace plait::test
