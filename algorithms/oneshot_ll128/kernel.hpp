// oneshot_ll with lines of 128 bytes instead of packets: half the traffic, where the target has lines.
#pragma once
#include "algorithms/oneshot_ll/kernel.hpp"

namespace plait::oneshot_ll128 {

using Types = AllTypes;
using oneshot_ll::Args;

template <class T>
struct Kernel {
  using BatchArgs = FlaggedBatch;

  template <Device D, class A>
  PLAIT_DEVICE static void run(D& dev, const A& a) {
    if constexpr (D::line_threads != 0) {
      exchange_messages<oneshot_ll::Oneshot<T, LineUnit<D>>>(dev, a);
    }
  }
};

}  // namespace plait::oneshot_ll128
