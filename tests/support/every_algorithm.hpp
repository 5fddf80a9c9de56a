// The algorithms of the registry, as selections and scratch memory take them.
#pragma once
#include <vector>

#include "algorithms/contract/algorithm.hpp"

namespace plait::test {

inline std::vector<const Algorithm*> every_algorithm() {
  std::vector<const Algorithm*> all;
  for (const auto& algorithm : Registry::instance().all()) all.push_back(algorithm.get());
  return all;
}

}  // namespace plait::test
