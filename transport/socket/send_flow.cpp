#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "transport/socket/flow_ends.hpp"

namespace plait::transport {
SocketSendFlow::SocketSendFlow(std::shared_ptr<FlowSockets> sockets,
                               std::shared_ptr<FlowThreads> threads)
    : SocketFlow(std::move(sockets), std::move(threads)), connections_(sockets_->size()) {
  for (std::size_t at = 0; at < connections_.size(); ++at)
    connections_[at].socket = &(*sockets_)[at];
}

Request SocketSendFlow::isend(const void* data, std::size_t bytes, Registration&) {
  state_.require_whole();
  // It is only read.
  auto* const from = const_cast<std::byte*>(static_cast<const std::byte*>(data));
  FlowMessage* const message =
      messages_.post(from, bytes, Stripes(bytes, connections_.size()).count());
  if (message == nullptr) return nullptr;
  if (has_thread()) wake();
  else advance();
  return message;
}

bool SocketSendFlow::test(Request request, std::size_t*) {
  auto& message = *static_cast<FlowMessage*>(request);
  if (!has_thread() && !is_complete(message)) advance();
  if (!is_complete(message)) return false;
  message.in_use = false;
  return true;
}

MovedFlow::Moved SocketSendFlow::move() noexcept {
  return moved_by([this] { advance(); });
}

void SocketSendFlow::enqueue(FlowMessage& message) {
  const Stripes stripes(message.room, connections_.size());
  for (std::size_t at = 0; at < stripes.count(); ++at) {
    connections_[at].queue.push_back({.head = {message.number, message.room},
                                      .data = message.data + stripes.offset(at),
                                      .bytes = stripes.size(at),
                                      .message = &message});
  }
}

std::unique_ptr<ReceiveFlow> SocketSendFlow::replies() {
  if (is_shared(sockets_)) return nullptr;
  return std::make_unique<SocketReceiveFlow>(sockets_, nullptr);
}

namespace {

/// All bytes have reached the other machine, or none will any more: the connection is broken, or
/// several repetitions were not answered.
bool is_acknowledged(const WatchedSocket& socket) {
  int bytes = 0;
  if (::ioctl(socket.get(), SIOCOUTQ, &bytes) != 0 || bytes == 0) return true;
  constexpr int most_unanswered = 2;
  tcp_info info{};
  socklen_t length = sizeof info;
  return ::getsockopt(socket.get(), IPPROTO_TCP, TCP_INFO, &info, &length) != 0 ||
         info.tcpi_state == TCP_CLOSE || info.tcpi_retransmits > most_unanswered;
}

}  // namespace

/// The system answers bytes that come for a closed socket, or that were not read when it was
/// closed, with a reset. That ends all sending. What the other machine has acknowledged is there.
bool SocketSendFlow::is_safe() {
  return std::all_of(sockets_->begin(), sockets_->end(), is_acknowledged);
}

void SocketSendFlow::advance() {
  for (const std::uint64_t posted = messages_.posted(); enqueued_ < posted; ++enqueued_)
    enqueue(messages_[enqueued_]);
  for (Connection& connection : connections_) {
    // The other rank never closes its end before this one, unless it has given up or ended.
    if (connection.queue.empty()) continue;
    if (connection.socket->hung_up()) state_.lose(connection.socket->why_ended());
    write(connection);
  }
}

void SocketSendFlow::write(Connection& connection) {
  constexpr std::size_t most_at_once = 8;  // messages in one system call
  while (!connection.queue.empty()) {
    std::array<iovec, 2 * most_at_once> parts;
    std::size_t number = 0, skipped = connection.sent;
    const auto add = [&](const void* from, std::size_t bytes) {
      const std::size_t gone = std::min(skipped, bytes);
      skipped -= gone;
      if (bytes > gone)
        parts[number++] = {const_cast<std::byte*>(static_cast<const std::byte*>(from)) + gone,
                           bytes - gone};
    };
    const std::size_t stripes = std::min(most_at_once, connection.queue.size());
    for (std::size_t at = 0; at < stripes; ++at) {
      const Outgoing& stripe = connection.queue[at];
      add(&stripe.head, sizeof stripe.head);
      if (stripe.bytes > 0) add(stripe.data, stripe.bytes);
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = number;
    const ssize_t sent = ::sendmsg(connection.socket->get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) return require_answers(connection);
    if (sent < 0 && errno != EINTR) state_.lose(connection.socket->why_ended(errno));
    if (sent <= 0) continue;
    bytes_moved_ += static_cast<std::size_t>(sent);
    count_sent(connection, static_cast<std::size_t>(sent));
  }
}

void SocketSendFlow::require_answers(Connection& connection) {
  if (connection.watch.finds_silence(connection.socket->get())) state_.lose(ETIMEDOUT);
}

void SocketSendFlow::count_sent(Connection& connection, std::size_t bytes) {
  connection.sent += bytes;
  while (!connection.queue.empty()) {
    const Outgoing& first = connection.queue.front();
    const std::size_t whole = sizeof first.head + first.bytes;
    if (connection.sent < whole) return;
    connection.sent -= whole;
    count_stripe(*first.message);
    connection.queue.pop_front();
  }
}

}  // namespace plait::transport
