#include "core/standard_fds.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <mutex>

#include "core/process.hpp"

namespace plait {
namespace {

constexpr std::array<int, 3> standard = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};

/// False for those that are closed, and for the stand-ins.
bool is_open(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_PATH) == 0;
}

/// The descriptors that stand in for closed ones. The last user closes them, because one that
/// closed its own would open a gap for the others.
class Fillers {
 public:
  void enter() {
    const std::scoped_lock lock(mutex_);
    ++users_;
    for (;;) {  // the system gives the lowest number that is free
      const int fd = ::open("/", O_PATH | O_CLOEXEC);
      if (fd < 0) return;
      if (fd > standard.back()) {
        ::close(fd);
        return;
      }
      taken_[static_cast<std::size_t>(fd)] = true;
    }
  }
  void leave() {
    const std::scoped_lock lock(mutex_);
    if (--users_ != 0) return;
    for (const int fd : standard) {
      // The program may have put a file of its own in the place.
      if (std::exchange(taken_[static_cast<std::size_t>(fd)], false) && !is_open(fd)) ::close(fd);
    }
  }

 private:
  std::mutex mutex_;
  int users_ = 0;
  std::array<bool, standard.size()> taken_{};
};
OfProcess<Fillers> stand_ins;  // a child of fork must not wait for a lock of its parent's threads

}  // namespace

StandardFdsTaken::StandardFdsTaken() {
  const int error = errno;
  for (const int fd : standard) takes_ = takes_ || !is_open(fd);
  if (takes_) stand_ins.get().enter();
  errno = error;
}

StandardFdsTaken::~StandardFdsTaken() {
  const int error = errno;
  if (takes_) stand_ins.get().leave();
  errno = error;
}

UniqueFd StandardFdsTaken::own(int fd) {
  UniqueFd made(fd);
  if (fd < 0 || fd > standard.back()) return made;
  const int error = errno;
  UniqueFd above(::fcntl(fd, F_DUPFD_CLOEXEC, standard.back() + 1));
  if (above.valid()) errno = error;
  return above;
}

}  // namespace plait
