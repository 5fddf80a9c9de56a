// Broadcast and reduce in two hops, in lines of 128 bytes, on targets that have lines: small to
// middle messages on three ranks or more. relay_units.hpp has the phases and the proof.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/rooted/relay_ll128/relay_units.hpp"
#include "backends/device/kernel_table.hpp"

namespace plait::relay_ll128 {

using Types = ReducedTypes;
using Args = RelayArgs;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::line_threads != 0) {
      RelayUnits<T, LineUnit<D>, D>::run(dev, a);
    }
  }
};

}  // namespace plait::relay_ll128
