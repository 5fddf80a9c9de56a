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

/// One code for any number of ranks: where a target has lines, or the elements are floats, other
/// algorithms are faster, and four codes would be 0.6 MB more of the library.
template <class T>
struct Kernel : LLKernel<Exchange<T>> {
  using Codes = TypeList<typename LLKernel<Exchange<T>>::template Code<8, false>>;
  template <class A>
  static unsigned code(const A&) {
    return 0;
  }
};

}  // namespace plait::twoshot_ll16
