// flash by the bulk copy engine, where the target has one.
#pragma once
#include "algorithms/flash/kernel.hpp"

namespace plait::flash_bulk {

using Types = AllTypes;
using flash::Args;

template <class T>
struct Kernel {
  using AllReduce = flash::AllReduce<T, flash::BulkCopies>;
  static constexpr int staged_packs = AllReduce::staged_packs;

  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    if constexpr (D::bulk_threads != 0) {
      AllReduce::run(dev, a);
    }
  }
};

}  // namespace plait::flash_bulk
