// The names of kernels of the program's own, for messages.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

/// A number for the kernel of this name. Ranks compare it.
std::uint64_t number_of_own_kernel(std::string_view name);
/// "kernel Shift" for that number; "another kernel" if this process has none of it.
std::string describe_own_kernel(std::uint64_t number);

}  // namespace plait
