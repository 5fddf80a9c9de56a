// Ranks as corners of a hypercube, for any number of ranks.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "backends/device/target.hpp"

namespace plait {

/// Let p be the largest power of two up to n. The first p ranks are the corners, and have a partner
/// in each round. Each rank r from p to n - 1 is a guest of rank r - p, its host. The host adds the
/// guest's input before the rounds, and sends it the result after them.
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
