// All collectives of one hop, in packets: the smallest messages, on any memory.
// algorithms/one_hop/direct_ll/direct_units.hpp has the phases and the proof.
//
// Cost: one hop. (n - 1) blocks leave, or reach, the busiest rank, as twice their bytes.
// Resources: 2 halves * thread blocks * n lanes * slots packets of scratch memory, two words per
// thread block.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/one_hop/direct_ll/direct_units.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::direct_ll {

using Types = ReducedTypes;
using Args = DirectArgs;

struct Moved {
  template <class D>
  static constexpr bool on = true;
  template <class D>
  using Unit = PacketUnit;
};

template <class T>
struct Kernel : DirectKernel<T, Moved> {};

}  // namespace plait::direct_ll
