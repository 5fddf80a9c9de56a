// How much host memory is free, asked before it is committed.
#pragma once
#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace plait::host {

/// What limits the memory files of this process: the machine (memory that is available, and swap),
/// and each control group (version 1 or 2) that it is in and that has a limit. Of each, what is
/// left but for a thirty-second part, which others may need meanwhile. What can't be read is no
/// limit. `root`: in front of /proc and of the mount points, for tests.
std::vector<MemoryLimit> memory_limits(const std::string& root = {});

/// The largest file that this process may have (RLIMIT_FSIZE): beyond it the kernel ends the
/// process by SIGXFSZ.
std::size_t largest_file();

/// Whether the kernel refuses memory that it has not set aside (vm.overcommit_memory = 2). Then a
/// page that is touched later may fail with SIGBUS, so everything is to be committed at once.
bool accounts_strictly();

}  // namespace plait::host
