// The pipeline of flash, for any depth. It knows nothing of ranks and sums. With depth 3:
//
//   step       0        1        2        3
//   starts     item 2   item 3   item 4   item 5     items 0 and 1 are started before step 0
//   waits for  item 0   item 1   item 2   item 3     depth - 1 items have been started after it
//   uses       item 0   item 1   item 2   item 3
//   slot       0        1        2        0          item i lies in slot i % depth
//
// Every step calls `start`, even if no item is left to start. So at every step, up to the end,
// exactly depth - 1 calls came after the call for the awaited item. Each item that was started is
// awaited, so nothing is on its way when the pipeline is done.
//
// The step after the one that used a slot fills it again. The thread first loads the packs of the
// slot and then starts the copy. No thread touches another's places. So a block needs no barrier,
// and its threads may be at different steps.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "backends/device/target.hpp"

namespace plait::flash {

/// `Work` is the work of a thread:
///   more()           whether there is an item to use
///   start<Slot>()    starts the copies of the next item, if there is one left to start
///   use<Slot>()      waits for the item in the slot, and uses it; Depth - 1 calls of `start` came
///                    after its own
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
  /// One step per slot, whose number is then a constant. False after the last item.
  template <int... Slots>
  PLAIT_DEVICE bool round(std::integer_sequence<int, Slots...>) {
    return (step<Slots>() && ...);
  }
  template <int Slot>
  PLAIT_DEVICE bool step() {
    if (!work_.more()) return false;
    work_.template start<(Slot + Depth - 1) % Depth>();
    work_.template use<Slot>();
    return true;
  }

  Work& work_;
};

}  // namespace plait::flash
