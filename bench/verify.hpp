// Checks one call: the result must be right, and all other bytes must be unchanged.
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"
#include "bench/contender.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

/// Fills the buffers of `task` with data for timing, because real inputs are not all zeros.
void fill_input(Communicator& comm, NativeStream stream, const Task& task, std::uint32_t seed);

/// Poisons the output, runs `task` once on new data and returns the number of wrong elements on all
/// ranks together: results, inputs that a call out of place has changed, and changed bytes of the
/// guard bands around the output. Collective.
std::size_t count_wrong(Communicator& comm, NativeStream stream, Contender& contender,
                        const Task& task, std::uint32_t seed);

}  // namespace plait::bench
