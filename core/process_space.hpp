// The machine and the namespaces of this process, which decide what two ranks have in common.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "core/standard_fds.hpp"

namespace plait {

namespace detail {
inline std::uint64_t number_of_namespace(const char* file) {
  struct stat space {};
  return ::stat(file, &space) == 0 ? space.st_ino : 0;
}
}  // namespace detail

/// The PID namespace of this process: its PIDs are valid only there. 0 if unknown, for example
/// without /proc.
inline std::uint64_t process_space() { return detail::number_of_namespace("/proc/self/ns/pid"); }

/// The network namespace of this process: names of abstract Unix sockets are valid only there. 0 if
/// unknown.
inline std::uint64_t network_space() { return detail::number_of_namespace("/proc/self/ns/net"); }

/// The system's own name for the time since this machine was booted. Empty if unknown.
inline std::string boot_id() {
  const StandardFdsTaken taken;
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

}  // namespace plait
