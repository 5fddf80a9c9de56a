// How much host memory is free; checked before memory is committed.
#pragma once
#include <string>
#include <vector>

#include "backends/backend.hpp"

namespace plait::host {

/// The limits of the memory files of this process: the machine (available memory and swap), and
/// each control group (version 1 or 2) that contains the process and has a limit. Each limit
/// reports the memory that is left, minus 1/32 of it, which others may need in the meantime. A
/// value that can't be read is no limit. `root` is a prefix of /proc and of the mount points, for
/// tests.
std::vector<MemoryLimit> memory_limits(const std::string& root = {});

/// The largest file that this process may have (RLIMIT_FSIZE); beyond it the kernel ends the
/// process by SIGXFSZ.
std::size_t largest_file();

/// Whether the kernel refuses memory that it has not reserved (vm.overcommit_memory = 2). Then
/// touching a page later may fail with SIGBUS, so all memory must be committed at once.
bool accounts_strictly();

}  // namespace plait::host
