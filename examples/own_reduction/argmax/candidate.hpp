// Who has the greatest value: an element type and an operation of our own.
#pragma once
#include <cstdint>

#include "backends/device/target.hpp"

struct alignas(8) Candidate {
  float value;
  std::uint32_t index;
};

/// Of two equal values the lower index wins, so it does not matter which ranks meet first.
struct Better {
  PLAIT_DEVICE Candidate operator()(const Candidate& a, const Candidate& b) const {
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
  }
};
