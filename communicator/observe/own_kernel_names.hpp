// The names of kernels of the program's own, for messages.
#pragma once
#include <cstdint>
#include <string>

#include "algorithms/own_kernels/kernel_setting.hpp"

namespace plait {

/// "kernel Shift" for that number of a name; "another kernel" if this process has none of it.
std::string describe_own_kernel(std::uint64_t number);
/// "3 rows of 256 columns", or "4 blocks of 128 threads".
std::string describe_extents(bool of_matrix, OwnExtents extents);

}  // namespace plait
