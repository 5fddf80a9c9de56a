// Addresses: how ranks write them down, and which of this machine's ranks listen on.
#pragma once
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/unique_fd.hpp"

namespace plait::detail {

/// Where a rank listens, in one form that can be sent: an internet address with a port, or the
/// abstract name of a Unix socket, which needs no network.
struct Endpoint {
  enum class Family : std::uint16_t { ipv4, ipv6, local };
  Family family = Family::ipv4;
  std::uint16_t port = 0;
  std::uint32_t scope = 0;               // of a link-local IPv6 address
  std::array<unsigned char, 16> host{};  // or a name, with zeros behind it

  bool operator==(const Endpoint&) const = default;
};

/// "10.0.0.1:4711", "[fe80::1%2]:4711", "@0001f".
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
/// `UniqueId::create`, which also says what this throws. `may_be_local`: it is a local one if no
/// interface is up.
Endpoint choose_own_address(bool may_be_local = false);
/// True if an interface of this machine that is up has the address.
bool is_own_address(const Endpoint& endpoint);
/// The name of the interface that has the address, or "" if none that is up does.
std::string interface_of(const Endpoint& endpoint);
/// The first address of `host`, a name or a number, to which the system knows a way. IPv4 addresses
/// come before IPv6 ones. Throws Error(bootstrap).
Endpoint resolve(const std::string& host, std::uint16_t port);

/// A socket that listens at `endpoint`: with port 0, or as a local one without a name, where the
/// system chooses. The address of all IPv6 interfaces stands for those of IPv4, too. Throws
/// Error(bootstrap).
UniqueFd listen_at(const Endpoint& endpoint);
/// This end of a connection or of a listener.
Endpoint own_end(int socket);
/// True if a call has met itself. If nothing listens at a port from which the system also draws
/// those of callers, it may.
bool is_itself(int socket, const Endpoint& called);
/// The other end of a connection, for messages: "10.0.0.1:4711", or "a closed connection".
std::string peer_name(int socket);
/// True if another user's process is at the other end. The system says so of local sockets only.
bool is_of_another_user(int socket);
/// Sends small messages at once, and notices within a minute that the machine of an idle peer is
/// gone. AnswerWatch notices it while data are on their way.
void prepare_connection(int socket);

}  // namespace plait::detail
