#include "bootstrap/socket/connection.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/standard_fds.hpp"
#include "core/text.hpp"

namespace plait::detail {
namespace {

constexpr int longest_poll = 1000;  // milliseconds

/// Waits until the socket is ready for `events`. False if the time is over.
bool wait_for(int socket, short events, const Deadline& deadline) {
  pollfd entry{socket, events, 0};
  while (poll_some({&entry, 1}, deadline.milliseconds_left(longest_poll)) == 0)
    if (deadline.expired()) return false;
  return true;
}

/// The error with which an attempt to connect has ended, or 0.
int try_to_connect(int socket, const Endpoint& endpoint, const Deadline& deadline) {
  const SocketAddress address(endpoint);
  if (::connect(socket, address.get(), address.length) == 0) return 0;
  if (errno != EINPROGRESS && errno != EINTR) return errno;
  if (!wait_for(socket, POLLOUT, deadline)) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace

std::optional<GroupFd> connect_to(const Endpoint& endpoint, const Deadline& deadline, bool retry) {
  const int family = SocketAddress(endpoint).storage.ss_family;
  for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, decltype(pause)(100))) {
    GroupFd socket(
        new_fd([&] { return ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
    int error = socket.valid() ? try_to_connect(socket.get(), endpoint, deadline) : errno;
    if (error == 0 && (is_itself(socket.get(), endpoint) || is_of_another_user(socket.get())))
      error = ECONNREFUSED;
    if (error == 0) {
      prepare_connection(socket.get());
      return socket;
    }
    // A listener with a full queue lets calls wait; one that closes resets those that wait.
    const bool absent = error == ECONNREFUSED || error == ECONNRESET;
    const bool may_pass = absent || error == EHOSTUNREACH || error == ENETUNREACH ||
                          error == EADDRNOTAVAIL || error == EAGAIN || error == ETIMEDOUT;
    const bool is_full = family == AF_UNIX && error == EAGAIN;  // its queue is
    if ((retry || is_full) && may_pass && !deadline.expired()) {
      std::this_thread::sleep_for(pause);
      continue;
    }
    if (absent || error == ETIMEDOUT) return std::nullopt;
    throw Error(ErrorCode::bootstrap,
                fmt::format("connecting to {}: {}", to_text(endpoint), system_text(error)));
  }
}

int poll_some(std::span<pollfd> sockets, int milliseconds) {
  const int found = ::poll(sockets.data(), sockets.size(), milliseconds);
  if (found < 0 && errno != EINTR && errno != EAGAIN) throw_errno("poll");
  return std::max(found, 0);
}

std::optional<int> send_rest(int socket, std::span<const std::byte> message, std::size_t& done) {
  while (done < message.size()) {
    const ssize_t sent =
        ::send(socket, message.data() + done, message.size() - done, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) done += static_cast<std::size_t>(sent);
    else if (errno == EAGAIN) break;
    else if (errno != EINTR) return errno;
  }
  return std::nullopt;
}

std::optional<int> receive_rest(int socket, std::span<std::byte> message, std::size_t& done) {
  while (done < message.size()) {
    const ssize_t got = ::recv(socket, message.data() + done, message.size() - done, MSG_DONTWAIT);
    if (got == 0) return 0;
    if (got > 0) done += static_cast<std::size_t>(got);
    else if (errno == EAGAIN) break;
    else if (errno != EINTR) return errno;
  }
  return std::nullopt;
}

Transfer send_all(int socket, const void* data, std::size_t bytes, const Deadline& deadline) {
  const std::span from(static_cast<const std::byte*>(data), bytes);
  for (std::size_t done = 0;;) {
    if (send_rest(socket, from, done)) return Transfer::closed;
    if (done == bytes) return Transfer::done;
    if (!wait_for(socket, POLLOUT, deadline)) return Transfer::expired;
  }
}

Transfer receive_all(int socket, void* data, std::size_t bytes, const Deadline& deadline) {
  const std::span to(static_cast<std::byte*>(data), bytes);
  for (std::size_t done = 0;;) {
    if (receive_rest(socket, to, done)) return Transfer::closed;
    if (done == bytes) return Transfer::done;
    if (!wait_for(socket, POLLIN, deadline)) return Transfer::expired;
  }
}

}  // namespace plait::detail
