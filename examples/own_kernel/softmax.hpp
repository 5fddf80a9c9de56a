#pragma once
#include <cmath>
#include <plait/rows.hpp>

struct Softmax {  // of each row of the sum
  float* out;
  template <class Row>
  PLAIT_DEVICE void operator()(Row& row) const {
    const float most = row.max([](auto, auto& x) {
      float larger = x[0];
      for (float value : x) larger = value > larger ? value : larger;
      return larger;
    });
    const float sum = row.sum([&](auto, auto& x) {
      float added = 0;
      for (float& value : x) added += value = std::exp(value - most);
      return added;
    });
    row.each([&](auto piece, auto& x) {
      for (float& value : x) value /= sum;
      row.store(row.of(out), piece, x);
    });
  }
};
