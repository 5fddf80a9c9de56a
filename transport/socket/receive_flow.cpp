#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plait/error.hpp"
#include "transport/socket/flow_ends.hpp"

namespace plait::transport {

SocketReceiveFlow::SocketReceiveFlow(std::shared_ptr<FlowSockets> sockets,
                                     std::shared_ptr<FlowThreads> threads)
    : SocketFlow(std::move(sockets), std::move(threads)), connections_(sockets_->size()) {
  for (std::size_t at = 0; at < connections_.size(); ++at)
    connections_[at].socket = &(*sockets_)[at];
}

Request SocketReceiveFlow::irecv(void* data, std::size_t bytes, Registration&) {
  state_.require_whole();
  // One stripe at least; the head says how many.
  FlowMessage* const message = messages_.post(static_cast<std::byte*>(data), bytes, 1);
  if (message != nullptr && has_thread()) wake();
  return message;  // otherwise `test` reads
}

bool SocketReceiveFlow::test(Request request, std::size_t* received) {
  auto& message = *static_cast<FlowMessage*>(request);
  if (!has_thread() && !is_complete(message)) {
    advance();
    if (!is_complete(message)) require_connections(message.number);
  }
  if (!is_complete(message)) return false;
  if (received != nullptr) *received = message.bytes;
  message.in_use = false;
  return true;
}

MovedFlow::Moved SocketReceiveFlow::move() noexcept {
  return moved_by([this] {
    advance();
    if (find_incomplete()) require_connections(complete_);
  });
}

/// After the user has taken a complete message back, its place may hold a later message. This may
/// find that one instead: it is incomplete as well, and needs the same connections.
bool SocketReceiveFlow::find_incomplete() {
  for (const std::uint64_t posted = messages_.posted(); complete_ < posted; ++complete_)
    if (posted - complete_ <= most_messages && messages_[complete_].stripes_left > 0) return true;
  return false;
}

std::unique_ptr<SendFlow> SocketReceiveFlow::reply() {
  if (is_shared(sockets_)) return nullptr;
  return std::make_unique<SocketSendFlow>(sockets_, nullptr);
}

void SocketReceiveFlow::require_connections(std::uint64_t number) {
  // The other rank may have closed all connections while bytes of this message are still to be
  // read from some. The end of the others is not the end of the message.
  for (Connection& connection : connections_) {
    const bool is_first = &connection == &connections_.front();
    const bool needed = is_first ? number >= begun_ || connection.message == &messages_[number]
                                 : connection.announced > 0;
    if (needed && connection.ended) state_.lose(*connection.ended);
    // While bytes of the flow back are not acknowledged, the system does not ask whether the other
    // machine is there.
    if (is_first && is_shared(sockets_) && connection.watch.finds_silence(connection.socket->get()))
      state_.lose(connection.socket->why_ended(ETIMEDOUT));
  }
}

void SocketReceiveFlow::advance() {
  for (std::size_t index = 0; index < connections_.size(); ++index) read(index);
}

void SocketReceiveFlow::read(std::size_t index) {
  Connection& connection = connections_[index];
  bool drained = false;
  for (;;) {
    if (connection.message == nullptr) {
      const bool wanted = index == 0 ? begun_ < messages_.posted() : connection.announced > 0;
      if (!wanted || !read_ahead(connection, sizeof(StripeHead), drained)) return;
      connection.message = &take_head(index);
    }
    if (!read_stripe(connection, drained)) return;
    count_stripe(*connection.message);
    connection.message = nullptr;
    if (index > 0) --connection.announced;
  }
}

bool SocketReceiveFlow::read_stripe(Connection& connection, bool& drained) {
  const auto advance = [&](std::size_t bytes) {
    connection.to += bytes;
    connection.left -= bytes;
  };
  while (connection.left > 0) {
    if (connection.first == connection.last && connection.left >= connection.ahead.size()) {
      if (drained) return false;
      const std::size_t got = receive(connection, connection.to, connection.left);
      drained = got < connection.left;
      advance(got);
    } else {
      if (!read_ahead(connection, 1, drained)) return false;
      const std::size_t bytes = std::min(connection.left, connection.last - connection.first);
      std::memcpy(connection.to, connection.ahead.data() + connection.first, bytes);
      connection.first += bytes;
      advance(bytes);
    }
  }
  return true;
}

bool SocketReceiveFlow::read_ahead(Connection& connection, std::size_t bytes, bool& drained) {
  while (connection.last - connection.first < bytes) {
    if (drained) return false;
    std::memmove(connection.ahead.data(), connection.ahead.data() + connection.first,
                 connection.last - connection.first);
    connection.last -= connection.first;
    connection.first = 0;
    const std::size_t room = connection.ahead.size() - connection.last;
    const std::size_t got = receive(connection, connection.ahead.data() + connection.last, room);
    connection.last += got;
    drained = got < room;
  }
  return true;
}

std::size_t SocketReceiveFlow::receive(Connection& connection, std::byte* to, std::size_t bytes) {
  while (!connection.ended) {
    const ssize_t got = ::recv(connection.socket->get(), to, bytes, MSG_DONTWAIT);
    if (got > 0) {
      bytes_moved_ += static_cast<std::size_t>(got);
      return static_cast<std::size_t>(got);
    }
    if (got < 0 && errno == EAGAIN) break;
    if (got == 0 || errno != EINTR)
      connection.ended = connection.socket->why_ended(got == 0 ? 0 : errno);
  }
  return 0;
}

FlowMessage& SocketReceiveFlow::take_head(std::size_t index) {
  Connection& connection = connections_[index];
  StripeHead head;
  std::memcpy(&head, connection.ahead.data() + connection.first, sizeof head);
  connection.first += sizeof head;
  FlowMessage& message = message_of(head, index);
  const Stripes stripes(message.bytes, connections_.size());
  if (index == 0) {
    message.stripes_left = stripes.count();
    for (std::size_t other = 1; other < stripes.count(); ++other) ++connections_[other].announced;
  }
  connection.to = message.data + stripes.offset(index);
  connection.left = stripes.size(index);
  return message;
}

FlowMessage& SocketReceiveFlow::message_of(const StripeHead& head, std::size_t index) {
  const bool is_first = index == 0;
  FlowMessage& message = messages_[head.message];
  const bool is_due = is_first ? head.message == begun_
                               : head.message < begun_ && message.number == head.message &&
                                     message.bytes == head.bytes && message.stripes_left > 0;
  if (!is_due)
    state_.break_off(ErrorCode::bootstrap,
                     fmt::format("a message came as number {} with {} bytes, which is not what its "
                                 "sender has announced",
                                 head.message, head.bytes));
  if (!is_first) return message;
  if (head.bytes > message.room)
    state_.break_off(ErrorCode::bootstrap,
                     fmt::format("a message of {} bytes came for a buffer of {} bytes", head.bytes,
                                 message.room));
  message.bytes = head.bytes;
  ++begun_;
  return message;
}

}  // namespace plait::transport
