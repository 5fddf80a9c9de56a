// The collectives that two hops serve better than one, for descriptors (algorithms/building_blocks/relay_pattern.hpp for kernels).
#pragma once
#include <memory>

#include "algorithms/building_blocks/relay_pattern.hpp"
#include "core/algorithm.hpp"

namespace plait {

/// Registers `A(collective)` for each of them.
template <class A>
struct RelayRegistration {
  RelayRegistration() {
    plait_register(PLAIT_VERSION, [] {
      for (const Collective collective : {Collective::broadcast, Collective::reduce})
        Registry::instance().add(std::make_unique<A>(collective));
    });
  }
};

}  // namespace plait
