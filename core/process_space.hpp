// The namespaces of this process, which decide what two ranks of one machine have in common.
#pragma once
#include <sys/stat.h>

#include <cstdint>

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

}  // namespace plait
