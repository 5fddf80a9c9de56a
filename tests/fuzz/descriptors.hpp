// Descriptors of all kinds that a program can send to another.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <vector>

#include "symm_mem/descriptor_exchange.hpp"
#include "target.hpp"

namespace plait::fuzz {

/// Tells files apart, as far as they have inodes of their own: memory files have.
struct FileId {
  dev_t device = 0;
  ino_t inode = 0;
  bool operator==(const FileId&) const = default;
};
inline FileId id_of(int fd) {
  struct stat file {};
  ::fstat(fd, &file);
  return {file.st_dev, file.st_ino};
}

inline UniqueFd make_memory_file() { return UniqueFd(::memfd_create("plait-fuzz", MFD_CLOEXEC)); }

/// Messages that can be sent, one of each kind.
class Descriptors {
 public:
  Descriptors() {
    std::array<int, 2> pipe{}, sockets{};
    require(::pipe2(pipe.data(), O_CLOEXEC) == 0 &&
                ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0,
            "there are pipes and sockets");
    reader_ = UniqueFd(pipe[0]);
    own_.emplace_back(pipe[1]);
    for (const int socket : sockets) own_.emplace_back(socket);
    own_.push_back(make_memory_file());
    own_.emplace_back(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    own_.emplace_back(::open("/", O_PATH | O_CLOEXEC));
    own_.emplace_back(::eventfd(0, EFD_CLOEXEC));
    own_.emplace_back(::epoll_create1(EPOLL_CLOEXEC));
  }
  int get(std::size_t kind) const { return own_[kind % own_.size()].get(); }
  void close() { own_.clear(); }
  /// Whether every copy of the pipe's end, wherever it was sent, has been closed.
  bool all_closed() const {
    pollfd end{reader_.get(), 0, 0};
    return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
  }

 private:
  UniqueFd reader_;
  std::vector<UniqueFd> own_;
};

}  // namespace plait::fuzz
