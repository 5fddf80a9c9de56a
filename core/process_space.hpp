// Whether a process number means the same process to two ranks.
#pragma once
#include <sys/stat.h>

#include <cstdint>

namespace plait {

/// The PID namespace of this process: its process numbers are valid there alone. 0: unknown, as
/// without /proc.
inline std::uint64_t process_space() {
  struct stat space {};
  return ::stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

}  // namespace plait
