// twoshot_ll with wide packets: two thirds of the traffic, where the target has them.
#pragma once
#include "algorithms/twoshot_ll/kernel.hpp"

namespace plait::twoshot_ll16 {

using Types = AllTypes;
using twoshot_ll::Args;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::has_wide_packets) {
      exchange_messages<twoshot_ll::Twoshot<T, WideUnit, D>>(dev, a);
    }
  }
};

}  // namespace plait::twoshot_ll16
