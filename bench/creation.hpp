// How long it takes to create a communicator.
#pragma once
#include <functional>
#include <memory>

#include "bench/options.hpp"
#include "plait/bootstrap.hpp"

namespace plait::bench {

/// Creates and destroys a communicator of all ranks `options.creations` times, and prints the times
/// of the slowest rank, in microseconds, as JSON: from the bootstrap, which `make_world` makes, to
/// the communicator. The first time includes what a process does once. Collective.
void measure_creation(Bootstrap& world, const Options& options,
                      const std::function<std::unique_ptr<Bootstrap>()>& make_world);

}  // namespace plait::bench
