// How a transport's thread sleeps until one of its sockets has something for it.
#pragma once
#include <chrono>
#include <memory>

#include "bootstrap/socket/group_fd.hpp"
#include "core/process.hpp"

namespace plait::transport {

/// A set of sockets, and a bell that any thread can ring.
///
/// The set reports each change once (EPOLLET). So bytes that wait for a buffer to be posted, or
/// room in a socket that nothing is sent over, wake no thread again, and no message costs a change
/// of the set. In exchange, a thread that reads or writes must go on until the system says EAGAIN
/// or gives less than was asked for, or until only a call of the flow's user can bring it further.
class Waiter {
 public:
  /// Throws Error(bootstrap) if the system refuses.
  Waiter();
  void sleep(std::chrono::microseconds timeout);
  /// The two parts of `sleep`, for a set that sockets of another thread may leave: `watch` waits
  /// until there is news, and `take_news` must not run while a socket leaves.
  void watch(std::chrono::microseconds timeout);
  bool take_news() { return take_events(0); }
  void ring() noexcept;

 private:
  friend class WatchedSocket;
  bool take_events(int milliseconds);

  plait::detail::GroupFd set_, bell_;
  Origin origin_;
};

/// A socket in the set of a waiter.
class WatchedSocket {
 public:
  WatchedSocket() = default;
  /// Throws Error(bootstrap) if the system refuses.
  WatchedSocket(plait::detail::GroupFd fd, std::shared_ptr<Waiter> waiter);
  WatchedSocket(WatchedSocket&&) = default;
  WatchedSocket& operator=(WatchedSocket&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(waiter_, other.waiter_);
    std::swap(state_, other.state_);
    return *this;
  }
  ~WatchedSocket();
  /// Moves it to the set of another waiter, whose thread alone may use it from now on. Throws
  /// Error(bootstrap) if the system refuses.
  void move_to(std::shared_ptr<Waiter> waiter);
  /// Takes it out of its set. In a forked child it does nothing.
  void leave() noexcept;
  int get() const noexcept { return fd_.get(); }
  bool valid() const noexcept { return fd_.valid(); }
  /// True if a `sleep` has found that the other side has closed its end, or that the link broke.
  bool hung_up() const noexcept { return state_ != nullptr && state_->hung_up; }
  /// Why the connection has ended, where a call has seen `error`; 0: the other side has closed it.
  /// The system tells a reason once, and two flows may ask, so the first reason is kept.
  int why_ended(int error = 0) noexcept;

 private:
  friend class Waiter;
  void enter();

  plait::detail::GroupFd fd_;
  std::shared_ptr<Waiter> waiter_;
  struct State {
    bool hung_up = false;
    int error = 0;
  };
  std::unique_ptr<State> state_;  // the set has its address
};

}  // namespace plait::transport
