// The names of kernels of the program's own, for messages.
#pragma once
#include <cstdint>
#include <string>

namespace plait {

/// "kernel Shift" for that number of a name; "another kernel" if this process has none of it.
std::string describe_own_kernel(std::uint64_t number);

}  // namespace plait
