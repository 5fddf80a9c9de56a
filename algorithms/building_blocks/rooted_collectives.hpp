// Broadcast and reduce, for descriptors: in one hop, all of it goes out of, or into, the root n - 1 times.
#pragma once
#include <memory>

#include "core/algorithm.hpp"

namespace plait {

/// Registers `A(collective)` for both.
template <class A>
struct BroadcastAndReduceRegistration {
  BroadcastAndReduceRegistration() {
    plait_register(PLAIT_VERSION, [] {
      for (const Collective collective : {Collective::broadcast, Collective::reduce})
        Registry::instance().add(std::make_unique<A>(collective));
    });
  }
};

}  // namespace plait
