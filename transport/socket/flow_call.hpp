// A flow that this rank is connecting.
#pragma once
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/door.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "transport/socket/flow_door.hpp"
#include "transport/socket/waiter.hpp"
#include "transport/socket/wire.hpp"

namespace plait::transport {

/// Calls a listener once per connection of the flow, and shows and sees the secret on each.
class FlowCall {
 public:
  /// `number`: of the listener.
  FlowCall(const plait::detail::Endpoint& to, std::uint64_t number,
           const plait::detail::Secret& secret, std::size_t connections,
           std::shared_ptr<Waiter> waiter)
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

  /// The connections, once the other rank has answered on all of them. Never waits. Throws
  /// Error(rank_lost) if no rank of the group listens there, and Error(bootstrap) if the system
  /// refuses.
  std::optional<FlowSockets> advance() {
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
  /// Half a second after the call, while the system there has not answered it: "connecting to
  /// 10.0.0.2:4711: no answer", and what helps. Else empty.
  std::string unanswered() const {
    constexpr std::chrono::milliseconds usual{500};
    const auto is_connected = [](const Line& line) { return line.connected; };
    if (std::all_of(lines_.begin(), lines_.end(), is_connected) ||
        std::chrono::steady_clock::now() < begun_ + usual)
      return {};
    return fmt::format("connecting to {}: no answer: {}", to_text(to_), help);
  }

 private:
  /// Strangers that fill the other rank's door may push a call out, but not so often.
  static constexpr int most_tries = 10;
  static constexpr std::string_view help =
      "a firewall may drop connections to that port, or this node does not reach that address: "
      "PLAIT_SOCKET_IFNAME names another interface there";

  struct Line {
    WatchedSocket socket;
    bool connected = false, complete = false;
    std::size_t sent = 0, received = 0;
    std::array<std::byte, sizeof(FlowAnswer)> answer;
    int tries = 0;
  };
  void dial(Line& line) {
    line.connected = false;
    line.sent = line.received = 0;
    const plait::detail::SocketAddress address(to_);
    plait::detail::GroupFd socket(new_fd([&] {
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
  void advance(std::size_t index) {
    Line& line = lines_[index];
    if (line.complete) return;
    if (!line.socket.valid()) return dial(line);
    if (!line.connected) {
      pollfd entry{line.socket.get(), POLLOUT, 0};
      if (::poll(&entry, 1, 0) <= 0) return;
      int error = 0;
      socklen_t length = sizeof error;
      ::getsockopt(line.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      if (error == 0 && plait::detail::is_itself(line.socket.get(), to_)) error = ECONNREFUSED;
      if (error != 0) return fail(line, error);
      line.connected = true;
    }
    FlowHello hello = hello_;
    hello.index = static_cast<std::uint32_t>(index);
    const auto words = std::as_bytes(std::span(&hello, 1));
    if (const auto ended = plait::detail::send_rest(line.socket.get(), words, line.sent))
      return fail(line, *ended);
    if (line.sent < words.size()) return;
    if (const auto ended =
            plait::detail::receive_rest(line.socket.get(), line.answer, line.received))
      return fail(line, *ended);
    if (line.received < line.answer.size()) return;
    FlowAnswer answer;
    std::memcpy(&answer, line.answer.data(), sizeof answer);
    if (answer.magic != flow_answer_magic || !plait::detail::equal(answer.proof, secret_.of_called))
      throw Error(ErrorCode::rank_lost,
                  fmt::format("connecting to {}: another program listens there now", to_text(to_)));
    line.complete = true;
  }
  /// The connection has failed with this error, or 0 if the other side has closed it.
  void fail(Line& line, int error) {
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

  plait::detail::Endpoint to_;
  FlowHello hello_;
  plait::detail::Secret secret_;
  std::shared_ptr<Waiter> waiter_;
  std::vector<Line> lines_;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace plait::transport
