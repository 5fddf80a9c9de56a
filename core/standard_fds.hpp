// Descriptors 0, 1 and 2, which a program may have been started without, for example by `2>&-`.
#pragma once
#include <utility>

#include "core/unique_fd.hpp"

namespace plait {

/// While one exists, no new descriptor of this process becomes 0, 1 or 2, whether Plait or a
/// library that it calls makes it. Otherwise standard error, where the program and Plait's log
/// write, could be a socket of Plait's.
///
/// Each of these numbers that is closed is taken by a descriptor on which reads and writes fail
/// with EBADF, as they do on a closed one. Costs three system calls if none is closed. Keeps errno.
class StandardFdsTaken {
 public:
  StandardFdsTaken();
  ~StandardFdsTaken();
  StandardFdsTaken(const StandardFdsTaken&) = delete;
  StandardFdsTaken& operator=(const StandardFdsTaken&) = delete;
  /// Of a descriptor that a system call has made beside a `StandardFdsTaken`: itself. If another
  /// thread's file was in the place of a closed one, and its number has become 0, 1 or 2, it is a
  /// duplicate with a higher one. Keeps errno.
  static UniqueFd own(int fd);

 private:
  bool takes_ = false;  // one of them is closed, or another object has taken it
};

/// The descriptor that the system call `make` returns, which is none of 0, 1 and 2. Every
/// descriptor that Plait makes comes from here or from `StandardFdsTaken::own`.
template <class Make>
UniqueFd new_fd(const Make& make) {
  const StandardFdsTaken taken;
  return StandardFdsTaken::own(static_cast<int>(make()));
}

}  // namespace plait
