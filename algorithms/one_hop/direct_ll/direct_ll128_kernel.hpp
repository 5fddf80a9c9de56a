// direct_ll in lines of 128 bytes instead of packets: half the traffic, on targets that have lines.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/one_hop/direct_ll/direct_units.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::direct_ll128 {

using Types = ReducedTypes;
using Args = DirectArgs;

struct Moved {
  template <class D>
  static constexpr bool on = D::line_threads != 0;
  template <class D>
  using Unit = LineUnit<D>;
};

template <class T>
struct Kernel : DirectKernel<T, Moved> {};

}  // namespace plait::direct_ll128
