// What ranks on the host know of each other's processes.
#pragma once
#include <span>

#include "backends/backend.hpp"

namespace plait::host {

/// This process's.
ProcessFacts process_facts();

/// Whether this process can read the ordinary memory of all, as process_vm_readv does: not in
/// containers that forbid it, nor beyond a border of users or process numbers.
bool can_read(std::span<const ProcessFacts> processes);

/// How often a thread should look at what it waits for before it begins to give its core away. Many
/// times if all ranks, with so many threads each, have cores of their own; a few where they must
/// take turns.
unsigned spins_for(std::span<const ProcessFacts> processes, unsigned threads);

}  // namespace plait::host
