// twoshot_ll in wide packets: two thirds of the traffic, on targets that have them.
#pragma once
#include "algorithms/all_reduce/twoshot_ll/kernel.hpp"

namespace plait::twoshot_ll16 {

using Types = ReducedTypes;
using twoshot_ll::Args;

template <class T>
struct Exchange {
  template <class D>
  static constexpr bool on = D::has_wide_packets;
  template <class D>
  using Messages = twoshot_ll::Twoshot<T, WideUnit, D>;
};

template <class T>
struct Kernel : LLKernel<Exchange<T>> {};

}  // namespace plait::twoshot_ll16
