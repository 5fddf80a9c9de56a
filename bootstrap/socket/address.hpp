// Internet addresses: how ranks write them down, and which of this machine's ranks listen on.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/unique_fd.hpp"

namespace plait::detail {

/// An address and a port, in one form for IPv4 and IPv6 that can be sent.
struct Endpoint {
  std::uint16_t ipv6 = 0;  // 0: IPv4, 1: IPv6
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  // of a link-local IPv6 address
  std::array<unsigned char, 16> host{};

  bool operator==(const Endpoint&) const = default;
};

/// "10.0.0.1:4711", "[fe80::1%2]:4711".
std::string to_text(const Endpoint& endpoint);
bool is_loopback(const Endpoint& endpoint);

/// An address as the system's calls take it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  explicit SocketAddress(const Endpoint& endpoint);
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

/// The address of this machine on which rank 0 of a unique id listens, with port 0. See
/// `UniqueId::create`, which also says what this throws.
Endpoint choose_own_address();
/// True if an interface of this machine that is up has the address.
bool is_own_address(const Endpoint& endpoint);
/// The name of the interface that has the address, or "" if none that is up does.
std::string interface_of(const Endpoint& endpoint);
/// The first address of `host`, a name or a number. Throws Error(bootstrap).
Endpoint resolve(const std::string& host, std::uint16_t port);

/// A socket that listens at `endpoint`. Throws Error(bootstrap).
UniqueFd listen_at(const Endpoint& endpoint);
/// This end of a connection or of a listener.
Endpoint own_end(int socket);
/// The other end of a connection, for messages: "10.0.0.1:4711", or "a closed connection".
std::string peer_name(int socket);
/// Sends small messages at once, and notices within a minute that the machine of an idle peer is
/// gone. AnswerWatch notices it while data are on their way.
void prepare_connection(int socket);

}  // namespace plait::detail
