// The group of all processes that a launcher has started.
#pragma once
#include <chrono>
#include <memory>
#include <optional>

#include "plait/bootstrap.hpp"

namespace plait::detail {

/// How libplait-mpi makes the group of MPI_COMM_WORLD.
using MpiWorld = std::unique_ptr<Bootstrap> (*)(std::optional<std::chrono::nanoseconds> timeout);
/// libplait-mpi calls it when it is loaded. `is_initialized`: whether this process uses MPI
/// already.
void offer_mpi_world(MpiWorld make, bool (*is_initialized)());

}  // namespace plait::detail
