// stream, but with results that go straight into the peers' outputs.
// algorithms/all_reduce/stream/kernel.hpp has the phases and the proof.
#pragma once  // SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/stream/kernel.hpp"

namespace plait::twoshot_push {

using Types = ReducedTypes;
using stream::Args;

template <class T>
struct Kernel {
  template <Device D>
  PLAIT_DEVICE static void run(D& dev, const Args& a) {
    stream::Stream<T, stream::Results::outputs, D>(dev, a).run();
  }
};

}  // namespace plait::twoshot_push
