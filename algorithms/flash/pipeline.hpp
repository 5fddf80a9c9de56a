// The pipeline of flash, for any depth. It knows nothing of ranks and sums.
//
//   step      0           1           2           3
//   starts    item 2      item 3      item 4      item 5       (depth 3; items 0 and 1 before the first step)
//   waits for item 0      item 1      item 2      item 3       all but the latest depth - 1 groups
//   uses      item 0      item 1      item 2      item 3
//   slot      0           1           2           0            item i lies in slot i % depth
//
// Every item is a group of copies of its own, and a step that has no item left to start commits an empty group. So exactly depth - 1 groups
// are younger than the awaited one at every step, in the steady state and at the end, and nothing is on its way when the pipeline is done.
//
// A slot is filled anew by the step after the one that used it: the same thread loaded its packs and then starts the copy, in this order.
// No thread touches another's places. So a block needs no barrier, and its threads may be at different steps.
#pragma once
#include <utility>

#include "backends/target.hpp"

namespace plait::flash {

/// `Work` is what a thread does:
///   more()           whether there is an item to use
///   start<Slot>()    starts the copies of the next item, if there is one left to start, and commits
///   meanwhile()      while the copies of the next item to be used are on their way
///   wait<Pending>()  until all but the latest `Pending` groups are complete
///   use<Slot>()      uses the next item
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
    work_.template wait<Depth - 1>();
    work_.template use<Slot>();
    return true;
  }

  Work& work_;
};

}  // namespace plait::flash
