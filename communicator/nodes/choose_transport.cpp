#include "communicator/nodes/choose_transport.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "bootstrap/link_bootstrap.hpp"
#include "bootstrap/socket/address.hpp"
#include "core/environment.hpp"
#include "core/process_space.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "transport/mpi_offer.hpp"
#include "transport/plugin/plugin_transport.hpp"
#include "transport/socket/socket_transport.hpp"

namespace plait {
namespace {

/// Rank 0 draws it, and the bootstrap tells the others.
detail::Secret draw_secret(Bootstrap& bootstrap) {
  detail::Secret secret;
  agree(bootstrap, connecting_nodes, [&] {
    if (getrandom(&secret, sizeof secret, 0) != static_cast<ssize_t>(sizeof secret))
      throw Error(ErrorCode::bootstrap, "the system gives no random bytes");
  });
  return on_behalf_of(bootstrap, connecting_nodes, [&] { return bootstrap.broadcast(secret, 0); });
}

enum class Net : std::uint8_t { sockets, plugin, mpi };
constexpr std::array names{"sockets", "plugin", "mpi"};

/// The kind that this rank's environment asks for.
Net wanted_net() {
  const bool has_plugin = environment("PLAIT_NET_PLUGIN").has_value();
  const auto value = environment("PLAIT_NET");
  if (!value) return has_plugin ? Net::plugin : Net::sockets;
  const auto found = std::find(names.begin(), names.end(), *value);
  if (found == names.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("PLAIT_NET={}: expected sockets, plugin or mpi", in_quotes(*value)));
  const auto net = static_cast<Net>(found - names.begin());
  if (net == Net::plugin && !has_plugin)
    throw Error(ErrorCode::invalid_argument, "PLAIT_NET=plugin: PLAIT_NET_PLUGIN names no plug-in");
  return net;
}

std::unique_ptr<transport::Transport> make_over_mpi(Bootstrap& bootstrap) {
  const auto make = transport::offered_mpi_transport();
  if (make == nullptr)
    throw Error(ErrorCode::unsupported, "PLAIT_NET=mpi: this program has not loaded libplait-mpi");
  auto* const linked = dynamic_cast<detail::LinkBootstrap*>(&bootstrap);
  auto over_mpi = linked == nullptr ? nullptr : make(linked->link());
  if (over_mpi == nullptr)
    throw Error(ErrorCode::unsupported,
                "PLAIT_NET=mpi: the communicator's ranks did not meet through MPI");
  return over_mpi;
}

std::unique_ptr<transport::Transport> make_plugin(const std::shared_ptr<Backend>& backend) {
  const std::string plugin = environment("PLAIT_NET_PLUGIN").value();
  const int devices = transport::count_plugin_devices(plugin);
  return transport::make_plugin_transport(plugin, backend->info().ordinal % std::max(devices, 1),
                                          [backend](void* data, std::size_t bytes) {
                                            const DeviceScope device(*backend);
                                            return backend->export_dma_buf(data, bytes);
                                          });
}

/// What a rank's environment asks for, and where it would listen.
struct Wish {
  Net net = Net::sockets;
  std::array<char, 40> boot{};  // its machine
  std::uint64_t network = 0;    // its namespace there
  detail::Endpoint address{};

  static Wish own() {
    Wish wish{.net = wanted_net()};
    if (wish.net != Net::sockets) return wish;
    wish.boot = as_text<decltype(wish.boot)>(boot_id());
    wish.network = network_space();
    wish.address = detail::choose_own_address();
    return wish;
  }
  bool has_one_network_with(const Wish& other) const {
    return boot == other.boot && network == other.network;
  }
};

/// The loopback device leads to no other network. All ranks throw the same.
void require_reachable(const std::vector<Wish>& wishes, const Nodes& nodes) {
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    const auto stranger = std::find_if(wishes.begin(), wishes.end(), [&](const Wish& other) {
      return !other.has_one_network_with(wishes[rank]);
    });
    if (!detail::is_loopback(wishes[rank].address) || stranger == wishes.end()) continue;
    const std::string address = to_text(wishes[rank].address);
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("{}: {} would listen at {}, an address of the loopback device, which {} can't "
                    "reach: name another interface in PLAIT_SOCKET_IFNAME",
                    connecting_nodes, nodes.name_of_rank(static_cast<int>(rank)),
                    address.substr(0, address.rfind(':')),
                    nodes.name_of_rank(static_cast<int>(stranger - wishes.begin()))));
  }
}

std::unique_ptr<transport::Transport> make_sockets(const detail::Secret& secret, int threads,
                                                   const detail::Endpoint& address) {
  const auto connections =
      environment_integer("PLAIT_NET_SOCKETS", 2, 1, transport::SocketOptions::most_connections);
  const auto wanted =
      environment_integer("PLAIT_NET_THREADS", threads, 0, transport::SocketOptions::most_threads);
  return transport::make_socket_transport({.secret = secret,
                                           .connections = static_cast<int>(connections),
                                           .threads = static_cast<int>(wanted),
                                           .address = address});
}

}  // namespace

std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap, const Nodes& nodes,
                                                       const std::shared_ptr<Backend>& backend,
                                                       int threads) {
  Wish wish;
  agree(bootstrap, connecting_nodes, [&] { wish = Wish::own(); });
  const auto wishes =
      on_behalf_of(bootstrap, connecting_nodes, [&] { return bootstrap.all_gather(wish); });
  const auto other = std::find_if(wishes.begin(), wishes.end(),
                                  [&](const Wish& one) { return one.net != wishes[0].net; });
  const auto name = [](Net kind) { return names[static_cast<std::size_t>(kind)]; };
  if (other != wishes.end())
    throw Error(ErrorCode::mismatch,
                fmt::format("{}: ranks differ in PLAIT_NET or PLAIT_NET_PLUGIN: rank {} is to use "
                            "{}, rank 0 {}",
                            connecting_nodes, other - wishes.begin(), name(other->net),
                            name(wishes[0].net)));
  const bool is_of_sockets = wish.net == Net::sockets;
  if (is_of_sockets) require_reachable(wishes, nodes);
  const detail::Secret secret = is_of_sockets ? draw_secret(bootstrap) : detail::Secret();
  std::unique_ptr<transport::Transport> transport;
  agree(bootstrap, connecting_nodes, [&] {
    switch (wish.net) {
      case Net::sockets:
        transport = make_sockets(secret, threads, wish.address);
        break;
      case Net::plugin:
        transport = make_plugin(backend);
        break;
      case Net::mpi:
        transport = make_over_mpi(bootstrap);
        break;
    }
  });
  return transport;
}

}  // namespace plait
