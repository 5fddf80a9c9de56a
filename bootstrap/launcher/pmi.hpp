// PMI-1, by which the mpiexec of MPICH and its relatives let processes exchange short texts.
#pragma once
#include <optional>

#include "bootstrap/support.hpp"
#include "plait/unique_id.hpp"

namespace plait::detail {

struct PmiJob {
  int rank, size;
  int socket;  // of the launcher
};
/// None if no such launcher has started this process. Throws Error(invalid_argument) if variables
/// contradict each other.
std::optional<PmiJob> find_pmi();

/// Rank 0 makes an id, and all ranks get it. A process can call this once. It must not if an MPI in
/// it speaks PMI. Throws Error(bootstrap) if the launcher does not answer within `limit`.
UniqueId share_id(const PmiJob& job, std::chrono::nanoseconds limit);

}  // namespace plait::detail
