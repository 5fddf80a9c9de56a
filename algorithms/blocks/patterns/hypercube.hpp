// Ranks as corners of a hypercube, for any number of them. Plain arithmetic, checked by unit tests.
#pragma once
#include "backends/device/target.hpp"

namespace plait {

/// With p the largest power of two up to n: the first p ranks are the corners, and have a partner
/// in each round. Ranks p .. n-1 are guests of rank - p: it folds their input in before the rounds,
/// and hands them the result after them.
struct Hypercube {
  int rank, ranks;

  PLAIT_DEVICE constexpr int core() const {  // p
    int p = 1;
    while (p * 2 <= ranks) p *= 2;
    return p;
  }
  PLAIT_DEVICE constexpr bool is_guest() const { return rank >= core(); }
  PLAIT_DEVICE constexpr int host() const { return rank - core(); }
  PLAIT_DEVICE constexpr int guest() const { return rank + core(); }
  PLAIT_DEVICE constexpr bool has_guest() const { return !is_guest() && guest() < ranks; }
  PLAIT_DEVICE constexpr int rounds() const {
    int s = 0;
    while ((2 << s) <= ranks) ++s;
    return s;
  }
  PLAIT_DEVICE constexpr int partner(int round) const { return rank ^ (1 << round); }
};

}  // namespace plait
