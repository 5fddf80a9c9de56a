// twoshot_ll in lines of 128 bytes instead of packets: half the traffic, on targets that have
// lines.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/twoshot_ll/kernel.hpp"

namespace plait::twoshot_ll128 {

using Types = ReducedTypes;
using twoshot_ll::Args;

template <class T>
struct Exchange {
  template <class D>
  static constexpr bool on = D::line_threads != 0;
  template <class D>
  using Messages = twoshot_ll::Twoshot<T, LineUnit<D>, D>;
};

template <class T>
struct Kernel : LLKernel<Exchange<T>> {
  using BatchArgs = LLBatch;
};

}  // namespace plait::twoshot_ll128
