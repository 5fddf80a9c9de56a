#include "support/covering.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/environment.hpp"
#include "support/data.hpp"

namespace plait::test {
namespace {

bool is_full() {
  static const bool full = environment_integer("PLAIT_TEST_FULL", 0, 0, 1) == 1;
  return full;
}

/// The combinations that `fits` accepts, in an order that the seed gives.
std::vector<Levels> product(const Levels& sizes, std::uint64_t seed,
                            const std::function<bool(const Levels&)>& fits) {
  std::vector<std::pair<std::uint64_t, Levels>> placed;
  const std::size_t count =
      std::accumulate(sizes.begin(), sizes.end(), std::size_t{1}, std::multiplies<std::size_t>());
  for (std::size_t i = 0; i < count; ++i) {
    Levels levels;
    for (std::size_t rest = i; const std::size_t size : sizes) {
      levels.push_back(rest % size);
      rest /= size;
    }
    if (fits(levels)) placed.emplace_back(hash(seed, 0, i), levels);
  }
  std::sort(placed.begin(), placed.end());
  std::vector<Levels> all;
  for (auto& [place, levels] : placed) all.push_back(std::move(levels));
  return all;
}

}  // namespace

std::vector<Levels> covering(const Levels& sizes, std::uint64_t seed,
                             const std::function<bool(const Levels&)>& fits) {
  std::vector<Levels> all = product(sizes, seed, fits);
  if (is_full()) return all;
  const std::size_t factors = sizes.size(), most = *std::max_element(sizes.begin(), sizes.end());
  std::vector<bool> met(factors * most * factors * most);
  std::vector<Levels> result;
  // First those with the most pairs that none before them has, at last those with one.
  for (std::size_t least = factors * (factors - 1) / 2; least > 0; --least)
    for (const Levels& levels : all) {
      std::vector<std::size_t> pairs;
      for (std::size_t f = 0; f < factors; ++f)
        for (std::size_t g = 0; g < f; ++g) {
          const std::size_t pair = ((f * most + levels[f]) * factors + g) * most + levels[g];
          if (!met[pair]) pairs.push_back(pair);
        }
      if (pairs.size() < least) continue;
      for (const std::size_t pair : pairs) met[pair] = true;
      result.push_back(levels);
    }
  return result;
}

std::size_t unless_full(std::size_t count, std::size_t full) { return is_full() ? full : count; }

}  // namespace plait::test
