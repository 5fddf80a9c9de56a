#include "communicator/observe/own_kernel_names.hpp"

#include <fmt/format.h>

#include <string_view>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "backends/host/host_kernels.hpp"

namespace plait {
namespace {

/// Of "... [with Kernel = Shift; A = {...}]", as g++ has it, or "... [Kernel = Shift, A = <...>]".
std::string_view type_in(std::string_view name) {
  constexpr std::string_view before = "Kernel = ";
  const std::size_t begin = name.find(before);
  if (begin == std::string_view::npos) return name;
  name.remove_prefix(begin + before.size());
  int depth = 0;  // of brackets, which may have commas in them
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (depth == 0 && (name[i] == ';' || name[i] == ',' || name[i] == ']'))
      return name.substr(0, i);
    if (std::string_view("<([{").find(name[i]) != std::string_view::npos) ++depth;
    if (std::string_view(">)]}").find(name[i]) != std::string_view::npos) --depth;
  }
  return name;
}

}  // namespace

std::string describe_own_kernel(std::uint64_t number) {
  std::string found = "another kernel";
  KernelTable<host::HostKernel>::instance().for_each([&](const auto& key, const auto&) {
    if (number_of_own_kernel(key.first) == number)
      found = "kernel " + std::string(type_in(key.first));
  });
  return found;
}

std::string describe_extents(bool of_matrix, OwnExtents extents) {
  return fmt::format("{} {} of {} {}", extents.first, of_matrix ? "rows" : "blocks", extents.second,
                     of_matrix ? "columns" : "threads");
}

}  // namespace plait
