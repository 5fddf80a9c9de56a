// Tells whether a PID means the same process to two ranks.
#pragma once
#include <sys/stat.h>

#include <cstdint>

namespace plait {

/// The PID namespace of this process: its PIDs are valid only there. 0 if unknown, for example
/// without /proc.
inline std::uint64_t process_space() {
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

}  // namespace plait
