#include "bootstrap/socket/socket_link.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "bootstrap/socket/connection.hpp"

namespace plait::detail {
namespace {

using Length = std::uint64_t;

}  // namespace

SocketLink::SocketLink(std::vector<GroupFd> connections, std::vector<int> processes,
                       std::chrono::milliseconds silence) {
  for (std::size_t rank = 0; rank < connections.size(); ++rank) {
    GroupFd& socket = connections[rank];
    if (socket.valid()) ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    peers_.push_back({.socket = std::move(socket),
                      .process = processes[rank],
                      .watch = AnswerWatch(silence),
                      .outgoing = {},
                      .incoming = {}});
  }
}

std::uint64_t SocketLink::send(int to, const MessageHead& head, std::span<const std::byte> data) {
  const std::scoped_lock lock(mutex_);
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  const std::uint64_t number = ++sends_;
  if (peer.ended) return number;  // no rank misses a message to one that has ended
  std::vector<std::byte> message = packed(head, data);
  const Length length = message.size();
  std::array<std::byte, sizeof length> front{};
  std::memcpy(front.data(), &length, sizeof length);
  message.insert(message.begin(), front.begin(), front.end());
  peer.outgoing.push_back({number, std::move(message)});
  write(peer);
  return number;
}

bool SocketLink::is_sent(std::uint64_t message) {
  const std::scoped_lock lock(mutex_);
  return std::none_of(peers_.begin(), peers_.end(), [&](const Peer& peer) {
    return std::any_of(peer.outgoing.begin(), peer.outgoing.end(),
                       [&](const Outgoing& other) { return other.number == message; });
  });
}

bool SocketLink::has_ended(int rank) const {
  const std::scoped_lock lock(mutex_);
  const Peer& peer = peers_[static_cast<std::size_t>(rank)];
  return peer.ended || detail::has_ended(peer.process);
}

void SocketLink::drop(Peer& peer) {
  peer.ended = true;
  peer.outgoing.clear();
  peer.socket = GroupFd();
}

void SocketLink::write(Peer& peer) {
  while (!peer.outgoing.empty()) {
    const std::vector<std::byte>& bytes = peer.outgoing.front().bytes;
    const bool broken = send_rest(peer.socket.get(), bytes, peer.sent).has_value();
    if (!broken && peer.sent < bytes.size()) return;
    peer.sent = 0;
    // A broken connection may still hold what its peer sent last: `read` finds its end.
    if (broken) peer.outgoing.clear();
    else peer.outgoing.pop_front();
  }
}

void SocketLink::read(int from, Peer& peer) {
  bool over = false;
  for (;;) {
    std::array<std::byte, 4096> part;  // NOLINT(*-member-init): recv fills it
    const ssize_t got = ::recv(peer.socket.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    over = got == 0 || (got < 0 && errno != EAGAIN);
    if (got <= 0) break;
    peer.incoming.insert(peer.incoming.end(), part.begin(), part.begin() + got);
  }
  std::size_t begin = 0;
  while (peer.incoming.size() - begin >= sizeof(Length)) {
    Length length = 0;
    std::memcpy(&length, peer.incoming.data() + begin, sizeof length);
    over = over || length > sizeof(MessageHead) + largest_message;
    if (length > peer.incoming.size() - begin - sizeof length) break;
    route(from, std::span(peer.incoming).subspan(begin + sizeof length, length));
    begin += sizeof length + length;
  }
  peer.incoming.erase(peer.incoming.begin(),
                      peer.incoming.begin() + static_cast<std::ptrdiff_t>(begin));
  if (over) drop(peer);
}

void SocketLink::advance() {
  const std::scoped_lock lock(mutex_);
  std::vector<pollfd> sockets;
  for (Peer& peer : peers_) {
    if (peer.socket.valid() && peer.watch.finds_silence(peer.socket.get())) drop(peer);
    const bool writes = !peer.outgoing.empty();
    sockets.push_back({peer.socket.get(),  // poll() passes over -1
                       static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  if (poll_some(sockets, 0) == 0) return;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    Peer& peer = peers_[rank];
    if ((sockets[rank].revents & POLLOUT) != 0) write(peer);
    if ((sockets[rank].revents & ~POLLOUT) != 0) read(static_cast<int>(rank), peer);
  }
}

}  // namespace plait::detail
