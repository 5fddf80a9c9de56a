// The index of the greatest value: an element type and an operation of our own.
#pragma once
#include <cstdint>

#include "backends/device/target.hpp"

struct alignas(8) Candidate {
  float value;
  std::uint32_t index;
};

/// If two values are equal, the lower index wins. So the order of the ranks does not matter.
struct Better {
  PLAIT_DEVICE Candidate operator()(const Candidate& a, const Candidate& b) const {
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
  }
};
