// oneshot_ll with wide packets: two thirds of the traffic, where the target has them.
#pragma once
#include "algorithms/oneshot_ll/kernel.hpp"

namespace plait::oneshot_ll16 {

using Types = AllTypes;
using oneshot_ll::Args;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::has_wide_packets) {
      oneshot_ll::Oneshot<T, WideUnit>::run(dev, a);
    }
  }
};

}  // namespace plait::oneshot_ll16
