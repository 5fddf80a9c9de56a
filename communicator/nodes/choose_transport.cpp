#include "communicator/nodes/choose_transport.hpp"

#include <sys/random.h>

#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"
#include "transport/socket/socket_transport.hpp"

namespace plait {
namespace {

constexpr const char* what = "connecting the nodes";

/// Rank 0 draws it, and the bootstrap tells the others.
detail::Secret draw_secret(Bootstrap& bootstrap) {
  detail::Secret secret;
  agree(bootstrap, what, [&] {
    if (getrandom(&secret, sizeof secret, 0) != static_cast<ssize_t>(sizeof secret))
      throw Error(ErrorCode::bootstrap, "the system gives no random bytes");
  });
  return on_behalf_of(bootstrap, what, [&] { return bootstrap.broadcast(secret, 0); });
}

}  // namespace

std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap) {
  const detail::Secret secret = draw_secret(bootstrap);
  std::unique_ptr<transport::Transport> transport;
  agree(bootstrap, what, [&] {
    const auto connections =
        environment_integer("PLAIT_NET_SOCKETS", 2, 1, transport::SocketOptions::most_connections);
    transport = transport::make_socket_transport(
        {.secret = secret, .connections = static_cast<int>(connections), .address = {}});
  });
  return transport;
}

}  // namespace plait
