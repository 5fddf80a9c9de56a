#include "bootstrap/socket/group_fd.hpp"

#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace plait::detail {
namespace {

/// All of this process.
class OpenFds {
 public:
  static OpenFds& instance() {
    static auto* open = new OpenFds;  // never destroyed: a fork may come at any time
    return *open;
  }
  void add(int fd) {
    const std::scoped_lock lock(mutex_);
    fds_.insert(fd);
  }
  /// Does nothing in a child that has closed it already: the number may be another file's by now.
  void close(int fd) {
    const std::scoped_lock lock(mutex_);
    if (fds_.erase(fd) != 0) ::close(fd);
  }

 private:
  OpenFds() {
    pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                   [] {
                     OpenFds& own = instance();
                     for (const int fd : own.fds_) ::close(fd);
                     own.fds_.clear();
                     own.mutex_.unlock();
                   });
  }
  std::mutex mutex_;
  std::set<int> fds_;
};

}  // namespace

GroupFd::GroupFd(UniqueFd fd) : fd_(fd.release()) {
  if (fd_ >= 0) OpenFds::instance().add(fd_);
}

GroupFd::~GroupFd() {
  if (fd_ >= 0) OpenFds::instance().close(fd_);
}

}  // namespace plait::detail
