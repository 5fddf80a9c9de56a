#include "transport/socket/waiter.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "bootstrap/support.hpp"
#include "core/standard_fds.hpp"

namespace plait::transport {

using plait::detail::throw_errno;

Waiter::Waiter()
    : set_(new_fd([] { return ::epoll_create1(EPOLL_CLOEXEC); })),
      bell_(new_fd([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); })) {
  if (!set_.valid()) throw_errno("epoll_create1");
  if (!bell_.valid()) throw_errno("eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  if (::epoll_ctl(set_.get(), EPOLL_CTL_ADD, bell_.get(), &event) != 0) throw_errno("epoll_ctl");
}

void Waiter::sleep(std::chrono::microseconds timeout) {
  using namespace std::chrono;
  const auto whole = duration_cast<milliseconds>(timeout).count();
  if (whole > 0) {
    take_events(static_cast<int>(std::min<std::int64_t>(whole, std::numeric_limits<int>::max())));
    return;
  }
  // epoll_wait counts in milliseconds, and the kernels of some sites lack epoll_pwait2.
  if (take_news() || timeout <= 0us) return;
  watch(timeout);
  take_news();
}

void Waiter::watch(std::chrono::microseconds timeout) {
  using namespace std::chrono;
  const auto whole = duration_cast<seconds>(timeout);
  const timespec limit{static_cast<time_t>(whole.count()),
                       static_cast<long>(nanoseconds(timeout - whole).count())};
  pollfd set{set_.get(), POLLIN, 0};
  ::ppoll(&set, 1, &limit, nullptr);
}

bool Waiter::take_events(int milliseconds) {
  std::array<epoll_event, 64> events;
  const int found =
      ::epoll_wait(set_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
  if (found < 0 && errno != EINTR) throw_errno("epoll_wait");
  for (int at = 0; at < found; ++at) {
    const epoll_event& event = events[static_cast<std::size_t>(at)];
    if (event.data.ptr == nullptr) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const ssize_t got = ::read(bell_.get(), &rings, sizeof rings);
    } else if ((event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
      static_cast<WatchedSocket::State*>(event.data.ptr)->hung_up = true;
    }
  }
  return found > 0;
}

void Waiter::ring() noexcept {
  const std::uint64_t one = 1;
  // Fails only if the bell has been rung 2^64 - 2 times since the last sleep.
  [[maybe_unused]] const ssize_t put = ::write(bell_.get(), &one, sizeof one);
}

WatchedSocket::WatchedSocket(plait::detail::GroupFd fd, std::shared_ptr<Waiter> waiter)
    : fd_(std::move(fd)), waiter_(std::move(waiter)), state_(std::make_unique<State>()) {
  enter();
}

void WatchedSocket::enter() {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = state_.get();
  if (::epoll_ctl(waiter_->set_.get(), EPOLL_CTL_ADD, fd_.get(), &event) != 0)
    throw_errno("epoll_ctl");
}

/// In a forked child the numbers may be those of other files by now.
void WatchedSocket::leave() noexcept {
  if (fd_.valid() && waiter_ != nullptr && waiter_->origin_.is_here())
    ::epoll_ctl(waiter_->set_.get(), EPOLL_CTL_DEL, fd_.get(), nullptr);
  waiter_.reset();
}

/// The new set reports what the socket has by then as news.
void WatchedSocket::move_to(std::shared_ptr<Waiter> waiter) {
  leave();
  waiter_ = std::move(waiter);
  enter();
}

int WatchedSocket::why_ended(int error) noexcept {
  socklen_t length = sizeof error;
  if (error == 0) ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (state_->error == 0) state_->error = error;
  return state_->error;
}

/// Closing is not enough: a child that has not come to its exec yet holds a copy of the socket,
/// which keeps it in the set.
WatchedSocket::~WatchedSocket() { leave(); }

}  // namespace plait::transport
