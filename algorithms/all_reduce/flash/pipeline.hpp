// The pipeline of flash, for any depth. It knows nothing of ranks and sums.
//
//   step      0           1           2           3
//   starts    item 2      item 3      item 4      item 5       (depth 3; items 0 and 1 before the
//   first step) waits for item 0      item 1      item 2      item 3       depth - 1 items have
//   been started after it uses      item 0      item 1      item 2      item 3 slot      0 1 2 0
//   item i lies in slot i % depth
//
// Every step calls `start`, also one that has no item left to start. So exactly depth - 1 calls are
// younger than the awaited item's at every step, in the steady state and at the end, and each item
// that was started is awaited: nothing is on its way when the pipeline is done.
//
// A slot is filled anew by the step after the one that used it: the thread, or the team of threads
// that copy together, loaded its packs and then starts the copy, in this order. No team touches
// another's places. So a block needs no barrier, and its teams may be at different steps.
#pragma once
#include <utility>

#include "backends/device/target.hpp"

namespace plait::flash {

/// `Work` is what a thread does:
///   more()           whether there is an item to use
///   start<Slot>()    starts the copies of the next item, if there is one left to start
///   meanwhile()      while the copies of the next item to be used are on their way
///   wait<Slot>()     until the item in the slot is there; Depth - 1 calls of `start` came after
///   its own use<Slot>()      uses it
template <int Depth, class Work>
class Pipeline {
  static_assert(Depth >= 1);

 public:
  PLAIT_DEVICE explicit Pipeline(Work& work) : work_(work) {}

  PLAIT_DEVICE void run() {
    fill(std::make_integer_sequence<int, Depth - 1>());
    while (round(std::make_integer_sequence<int, Depth>())) {
    }
  }

 private:
  template <int... Slots>
  PLAIT_DEVICE void fill(std::integer_sequence<int, Slots...>) {
    (work_.template start<Slots>(), ...);
  }
  /// A step for every slot, whose number is then a constant. False after the last item.
  template <int... Slots>
  PLAIT_DEVICE bool round(std::integer_sequence<int, Slots...>) {
    return (step<Slots>() && ...);
  }
  template <int Slot>
  PLAIT_DEVICE bool step() {
    if (!work_.more()) return false;
    work_.template start<(Slot + Depth - 1) % Depth>();
    work_.meanwhile();
    work_.template wait<Slot>();
    work_.template use<Slot>();
    return true;
  }

  Work& work_;
};

}  // namespace plait::flash
