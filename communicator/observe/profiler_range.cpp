#include "communicator/observe/profiler_range.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>

#include "algorithms/own_kernels/kernel_setting.hpp"
#include "communicator/observe/own_kernel_names.hpp"

namespace plait {
namespace {

/// Kept, because finding it takes a walk through all kernels of the process.
const std::string& name_of_own_kernel(std::uint64_t number) {
  thread_local std::map<std::uint64_t, std::string> names;
  std::string& name = names[number];
  if (name.empty()) name = describe_own_kernel(number);
  return name;
}

}  // namespace

std::string name_of(const ServedCalls& calls) {
  if (is_own_kernel(calls.algorithm)) return "plait " + name_of_own_kernel(calls.count);
  return fmt::format(
      "plait {}{}{}, {}", name_of(calls.collective),
      calls.count == 0 ? "" : fmt::format(" {} {}", name_of(calls.type), calls.count),
      calls.others == 0 ? "" : fmt::format(" and {} more", calls.others), calls.algorithm);
}

}  // namespace plait
