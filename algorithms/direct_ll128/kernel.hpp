// direct_ll with lines of 128 bytes instead of packets: half the traffic, where the target has lines.
#pragma once
#include "algorithms/building_blocks/direct.hpp"
#include "backends/kernel_table.hpp"

namespace plait::direct_ll128 {

using Types = AllTypes;
using Args = DirectArgs;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::line_threads != 0) {
      exchange_directly<T, LineUnit<D>>(dev, a);
    }
  }
};

}  // namespace plait::direct_ll128
