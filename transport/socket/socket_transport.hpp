// Messages between nodes over TCP.
#pragma once
#include <memory>
#include <optional>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

struct SocketOptions {
  /// 16 random bytes, equal on all ranks. A connection without them is refused.
  plait::detail::Secret secret;
  /// Connections per flow, 1 to `most_connections`. Large messages are cut in a stripe for each,
  /// because one connection seldom fills a fast network.
  int connections = 2;
  /// Threads that move large messages, 0 to `most_threads`. 0: the user of the flows moves them.
  int threads = 0;
  /// Where this process listens, with port 0. None: `choose_own_address()`.
  std::optional<plait::detail::Endpoint> address;

  static constexpr int most_connections = 8, most_threads = 8;
};

/// Throws Error(invalid_argument) for a number of connections or threads out of range, and what
/// `choose_own_address` throws.
std::unique_ptr<Transport> make_socket_transport(const SocketOptions& options);

}  // namespace plait::transport
