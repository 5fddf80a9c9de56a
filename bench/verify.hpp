// One checked call: is the result right, and is everything else as it was?
#pragma once
#include <cstddef>
#include <cstdint>

#include "backends/backend.hpp"
#include "bench/contender.hpp"
#include "plait/communicator.hpp"

namespace plait::bench {

/// Fills the buffers of `task` with data, for timing: what a program reduces isn't all zeros.
void fill_input(Communicator& comm, NativeStream stream, const Task& task, std::uint32_t seed);

/// Runs `task` once on new data, the output poisoned before, and returns how many elements are
/// wrong on all ranks together: results, inputs that changed although the call was out of place,
/// and bytes of the guard bands around the output. Collective.
std::size_t count_wrong(Communicator& comm, NativeStream stream, Contender& contender,
                        const Task& task, std::uint32_t seed);

}  // namespace plait::bench
