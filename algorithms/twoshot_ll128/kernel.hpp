// twoshot_ll with lines of 128 bytes instead of packets: half the traffic, where the target has lines.
#pragma once
#include "algorithms/twoshot_ll/kernel.hpp"

namespace plait::twoshot_ll128 {

using Types = AllTypes;
using twoshot_ll::Args;

template <class T>
struct Kernel {
  using BatchArgs = FlaggedBatch;

  template <Device D, class A>
  PLAIT_DEVICE static void run(D& dev, const A& a) {
    if constexpr (D::line_threads != 0) {
      exchange_messages<twoshot_ll::Twoshot<T, LineUnit<D>, D>>(dev, a);
    }
  }
};

}  // namespace plait::twoshot_ll128
