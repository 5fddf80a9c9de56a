#include "communicator/nodes/choose_transport.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <string>

#include "bootstrap/agreement.hpp"
#include "core/environment.hpp"
#include "plait/error.hpp"
#include "transport/plugin/plugin_transport.hpp"
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

std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap, int device) {
  const auto plugin = environment("PLAIT_NET_PLUGIN");
  const auto has_plugin = on_behalf_of(
      bootstrap, what, [&] { return bootstrap.all_gather(static_cast<int>(plugin.has_value())); });
  const auto other = std::find(has_plugin.begin(), has_plugin.end(), 1 - has_plugin.front());
  if (other != has_plugin.end())
    throw Error(ErrorCode::mismatch,
                fmt::format("{}: ranks differ in PLAIT_NET_PLUGIN: rank {} has {}, rank 0 has {}",
                            what, other - has_plugin.begin(), *other != 0 ? "one" : "none",
                            *other != 0 ? "none" : "one"));
  if (plugin) {
    std::unique_ptr<transport::Transport> transport;
    agree(bootstrap, what, [&] {
      const int devices = transport::count_plugin_devices(*plugin);
      transport = transport::make_plugin_transport(*plugin, device % std::max(devices, 1));
    });
    return transport;
  }
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
