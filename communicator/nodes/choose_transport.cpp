#include "communicator/nodes/choose_transport.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bootstrap/agreement.hpp"
#include "bootstrap/link_bootstrap.hpp"
#include "bootstrap/socket/address.hpp"
#include "core/environment.hpp"
#include "core/process_space.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "transport/mpi_offer.hpp"
#include "transport/plugin/near_device.hpp"
#include "transport/plugin/plugin_transport.hpp"
#include "transport/socket/socket_transport.hpp"

namespace plait {
namespace {

detail::Secret draw_secret() {
  detail::Secret secret;
  if (getrandom(&secret, sizeof secret, 0) != static_cast<ssize_t>(sizeof secret))
    throw Error(ErrorCode::bootstrap, "the system gives no random bytes");
  return secret;
}

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

/// Whether PLAIT_NET_CHECK asks for checksums.
bool wants_check() {
  const auto value = environment("PLAIT_NET_CHECK");
  if (!value || *value == "none") return false;
  if (*value == "crc32c") return true;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("PLAIT_NET_CHECK={}: expected none or crc32c", in_quotes(*value)));
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
  const std::vector<transport::NetDevice> devices = transport::plugin_devices(plugin);
  const DeviceInfo& info = backend->info();
  const auto near = transport::nearest_device(devices, transport::GpuPlaces::find(info.id));
  const int number = near.value_or(info.ordinal % std::max(static_cast<int>(devices.size()), 1));
  return transport::make_plugin_transport(plugin, number, [backend](void* data, std::size_t bytes) {
    const DeviceScope device(*backend);
    return backend->export_dma_buf(data, bytes);
  });
}

/// The loopback device leads to no other network. All ranks throw the same.
void require_reachable(std::span<const NetWish> wishes, const Nodes& nodes) {
  for (std::size_t rank = 0; rank < wishes.size(); ++rank) {
    if (!detail::is_loopback(wishes[rank].address)) continue;
    const auto stranger = std::find_if(wishes.begin(), wishes.end(), [&](const NetWish& other) {
      return !other.has_one_network_with(wishes[rank]);
    });
    if (stranger == wishes.end()) continue;
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

NetWish NetWish::own() {
  NetWish wish{
      .net = wanted_net(),
      .checks = wants_check(),
      .direct_memory = static_cast<DirectMemory>(environment_integer("PLAIT_NET_GDR", -1, 0, 1))};
  if (wish.net != Net::sockets) return wish;
  wish.boot = as_text<decltype(wish.boot)>(boot_id());
  wish.network = network_space();
  wish.address = detail::choose_own_address();
  wish.secret = draw_secret();
  return wish;
}

ChosenTransport choose_transport(Bootstrap& bootstrap, const Nodes& nodes,
                                 std::span<const NetWish> wishes,
                                 const std::shared_ptr<Backend>& backend, int threads) {
  const NetWish& wish = wishes[static_cast<std::size_t>(bootstrap.rank())];
  const auto require_equal = [&](const char* what, auto value_of) {
    for (std::size_t rank = 1; rank < wishes.size(); ++rank)
      if (const std::string_view has = value_of(wishes[rank]); has != value_of(wishes[0]))
        throw Error(ErrorCode::mismatch,
                    fmt::format("{}: ranks differ in {}: rank {} has {}, rank 0 {}",
                                connecting_nodes, what, rank, has, value_of(wishes[0])));
  };
  require_equal("PLAIT_NET or PLAIT_NET_PLUGIN", [](const NetWish& one) {
    return std::string_view(names[static_cast<std::size_t>(one.net)]);
  });
  require_equal("PLAIT_NET_CHECK", [](const NetWish& one) {
    return std::string_view(one.checks ? "crc32c" : "none");
  });
  require_equal("PLAIT_NET_GDR", [](const NetWish& one) {
    return std::string_view(one.direct_memory == DirectMemory::none  ? "unset"
                            : one.direct_memory == DirectMemory::off ? "0"
                                                                     : "1");
  });
  const bool is_of_sockets = wish.net == Net::sockets;
  if (is_of_sockets) require_reachable(wishes, nodes);
  const auto make = [&bootstrap, backend, threads, net = wish.net, address = wish.address,
                     secret = wishes[0].secret] {
    switch (net) {
      case Net::plugin:
        return make_plugin(backend);
      case Net::mpi:
        return make_over_mpi(bootstrap);
      default:
        return make_sockets(secret, threads, address);
    }
  };
  return {make, wish.checks, wish.direct_memory};
}

}  // namespace plait
