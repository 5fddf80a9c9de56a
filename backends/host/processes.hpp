// Facts that ranks on the host exchange about their processes.
#pragma once
#include <span>

#include "backends/backend.hpp"

namespace plait::host {

ProcessFacts process_facts();

/// Whether this process can read the ordinary memory of all these processes with process_vm_readv.
/// It can't in containers that forbid that, nor if the processes have different users or
/// process-number namespaces.
bool can_read(std::span<const ProcessFacts> processes);

/// Threads per processor of these processes of one node, with `threads` each, by the affinity and
/// the quota of the processes.
double turns_of(std::span<const ProcessFacts> processes, unsigned threads);

/// How often a thread should poll before it begins to yield its core: many times if all ranks, with
/// `threads` threads per rank, have their own cores; a few times if they must take turns.
unsigned spins_for(std::span<const ProcessFacts> processes, unsigned threads);

}  // namespace plait::host
