// oneshot_ll in lines of 128 bytes instead of packets: half the traffic, on targets that have
// lines.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/oneshot_ll/kernel.hpp"

namespace plait::oneshot_ll128 {

using Types = ReducedTypes;
using oneshot_ll::Args;

template <class T>
struct Exchange {
  template <class D>
  static constexpr bool on = D::line_threads != 0;
  template <class D>
  using Messages = oneshot_ll::Oneshot<T, LineUnit<D>>;
};

template <class T>
struct Kernel : oneshot_ll::OneshotKernel<Exchange<T>> {};

}  // namespace plait::oneshot_ll128
