// Processes share memory as file descriptors, which only a Unix socket can hand over.
#pragma once
#include <vector>

#include "core/unique_fd.hpp"
#include "plait/bootstrap.hpp"

namespace plait {

/// Gives a duplicate of `mine` to every other rank. Entry r of the result is rank r's descriptor;
/// this rank's own entry is invalid. Collective. All ranks must be on one machine, in one network
/// namespace, and run as one user. Leaves nothing in the file system. Other users can neither get a
/// descriptor, nor hand one in, nor hold the exchange up. The caller must check what kind of file a
/// received descriptor is. Throws the same `Error(bootstrap)` on all ranks, which names the rank
/// that failed.
std::vector<UniqueFd> exchange_descriptors(Bootstrap& bootstrap, const UniqueFd& mine);

}  // namespace plait
