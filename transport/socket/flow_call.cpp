#include "transport/socket/flow_call.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::transport {
namespace {

using plait::detail::Endpoint;
using plait::detail::GroupFd;

/// Strangers that fill the other rank's door may push a call out. Nobody is that unlucky so often.
constexpr int most_tries = 10;

std::string system_text(int error) { return std::generic_category().message(error); }

constexpr std::string_view help =
    "a firewall may drop connections to that port, or this node does not reach that address: "
    "PLAIT_SOCKET_IFNAME names another interface there";

/// If nothing listens at a port from which the system also draws those of callers, a call may meet
/// itself.
bool is_itself(int socket, const Endpoint& to) {
  const Endpoint own = plait::detail::own_end(socket);
  return own.port == to.port && own.host == to.host;
}

}  // namespace

FlowCall::FlowCall(const Endpoint& to, std::uint64_t number, const plait::detail::Secret& secret,
                   std::size_t connections, std::shared_ptr<Waiter> waiter)
    : to_(to),
      hello_{.magic = flow_hello_magic,
             .proof = secret.of_caller,
             .listener = number,
             .flow = {random_word(), random_word()},
             .number = static_cast<std::uint32_t>(connections)},
      secret_(secret),
      waiter_(std::move(waiter)),
      lines_(connections) {
  for (Line& line : lines_) dial(line);
}

void FlowCall::dial(Line& line) {
  line.connected = false;
  line.sent = line.received = 0;
  const plait::detail::SocketAddress address(to_);
  GroupFd socket(new_fd([&] {
    return ::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  }));
  if (!socket.valid()) {
    const int error = errno;
    line.socket = WatchedSocket();  // `advance` dials again
    if ((error == EMFILE || error == ENFILE) &&
        std::chrono::steady_clock::now() < begun_ + patience_with_files)
      return;
    throw Error(ErrorCode::bootstrap,
                fmt::format("connecting to {}: {}", to_text(to_), system_text(error)));
  }
  plait::detail::prepare_connection(socket.get());
  const int status = ::connect(socket.get(), address.get(), address.length);
  const int error = status == 0 || errno == EINPROGRESS || errno == EINTR ? 0 : errno;
  line.socket = WatchedSocket(std::move(socket), waiter_);
  if (error != 0) fail(line, error);
}

void FlowCall::fail(Line& line, int error) {
  const bool may_pass = error == 0 || error == ECONNRESET || error == EPIPE;
  if (may_pass && ++line.tries < most_tries) return dial(line);
  const bool local = error == EADDRNOTAVAIL || error == EMFILE || error == ENOMEM ||
                     error == ENOBUFS || error == EACCES || error == EPERM;
  const bool unreached = error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  throw Error(local ? ErrorCode::bootstrap : ErrorCode::rank_lost,
              fmt::format("connecting to {}: {}{}", to_text(to_),
                          error != 0 ? system_text(error)
                                     : "the program there closes connections of this group",
                          unreached ? fmt::format(": {}", help) : ""));
}

void FlowCall::advance(std::size_t index) {
  Line& line = lines_[index];
  if (line.complete) return;
  if (!line.socket.valid()) return dial(line);
  if (!line.connected) {
    pollfd entry{line.socket.get(), POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) return;
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(line.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error == 0 && is_itself(line.socket.get(), to_)) error = ECONNREFUSED;
    if (error != 0) return fail(line, error);
    line.connected = true;
  }
  FlowHello hello = hello_;
  hello.index = static_cast<std::uint32_t>(index);
  const auto* words = reinterpret_cast<const std::byte*>(&hello);
  while (line.sent < sizeof hello) {
    const ssize_t sent = ::send(line.socket.get(), words + line.sent, sizeof hello - line.sent,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) return fail(line, errno);
    line.sent += static_cast<std::size_t>(sent);
  }
  while (line.received < line.answer.size()) {
    const ssize_t got = ::recv(line.socket.get(), line.answer.data() + line.received,
                               line.answer.size() - line.received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return fail(line, got < 0 ? errno : 0);
    line.received += static_cast<std::size_t>(got);
  }
  FlowAnswer answer;
  std::memcpy(&answer, line.answer.data(), sizeof answer);
  if (answer.magic != flow_answer_magic || !plait::detail::equal(answer.proof, secret_.of_called))
    throw Error(ErrorCode::rank_lost,
                fmt::format("connecting to {}: another program listens there now", to_text(to_)));
  line.complete = true;
}

std::string FlowCall::unanswered() const {
  constexpr std::chrono::milliseconds usual{500};
  const auto is_connected = [](const Line& line) { return line.connected; };
  if (std::all_of(lines_.begin(), lines_.end(), is_connected) ||
      std::chrono::steady_clock::now() < begun_ + usual)
    return {};
  return fmt::format("connecting to {}: no answer: {}", to_text(to_), help);
}

std::optional<FlowSockets> FlowCall::advance() {
  bool complete = true;
  for (std::size_t index = 0; index < lines_.size(); ++index) {
    advance(index);
    complete = complete && lines_[index].complete;
  }
  if (!complete) return std::nullopt;
  FlowSockets sockets;
  for (Line& line : lines_) sockets.push_back(std::move(line.socket));
  return sockets;
}

}  // namespace plait::transport
