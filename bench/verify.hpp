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
/// guard bands around the output. For a barrier: calls it with each rank late in turn, and returns
/// how often a rank has left it before the late rank entered. The ranks must share a clock, so be
/// on one node. Collective.
std::size_t count_wrong(Communicator& comm, NativeStream stream, Contender& contender,
                        const Task& task, std::uint32_t seed);

}  // namespace plait::bench
