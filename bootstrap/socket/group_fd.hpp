// Sockets that belong to this process alone.
#pragma once
#include <utility>

#include "core/unique_fd.hpp"

namespace plait::detail {

/// A descriptor that a child made by fork closes before it runs any other code. A child that kept
/// it would keep the peers from noticing the parent's end.
class GroupFd {
 public:
  GroupFd() = default;
  explicit GroupFd(UniqueFd fd);
  GroupFd(GroupFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  GroupFd& operator=(GroupFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~GroupFd();
  int get() const noexcept { return fd_; }
  bool valid() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

}  // namespace plait::detail
