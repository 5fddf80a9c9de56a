// Which transport carries the traffic between nodes.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait {

/// What errors say that a rank does.
inline constexpr const char* connecting_nodes = "connecting the nodes";

/// What PLAIT_NET_GDR says.
enum class DirectMemory : std::int8_t { none = -1, off = 0, on = 1 };

/// What PLAIT_NET names.
enum class Net : std::uint8_t { sockets, plugin, mpi };

/// What a rank's environment asks for, and where it would listen. Ranks exchange it.
struct NetWish {
  Net net = Net::sockets;
  bool checks = false;  // PLAIT_NET_CHECK
  DirectMemory direct_memory = DirectMemory::none;
  std::array<char, 40> boot{};  // its machine
  std::uint64_t network = 0;    // its namespace there
  detail::Endpoint address{};
  detail::Secret secret{};  // that of rank 0 counts

  /// This rank's. Throws Error(invalid_argument) if its environment is wrong.
  static NetWish own();
  bool has_one_network_with(const NetWish& other) const {
    return boot == other.boot && network == other.network;
  }
};

struct ChosenTransport {
  std::function<std::unique_ptr<transport::Transport>()> make;  // throws if this rank can't have it
  bool is_checked = false;                                      // PLAIT_NET_CHECK
  DirectMemory direct_memory = DirectMemory::none;
};

/// What PLAIT_NET names: sockets, the plug-in of PLAIT_NET_PLUGIN, or MPI. Without PLAIT_NET it is
/// the plug-in if one is named, else sockets. Local: all ranks get the same kind from the `wishes`
/// of all, or throw the same. Error(mismatch): these differ, or what PLAIT_NET_CHECK and
/// PLAIT_NET_GDR say. Error(invalid_argument): a rank's sockets would listen where a rank of
/// another network can't reach them. `backend`: of this rank's device; of a plug-in's network
/// devices it takes the nearest or, where places are unknown, the one of the device's number.
/// `threads`: those that move large messages over sockets, unless PLAIT_NET_THREADS says otherwise.
ChosenTransport choose_transport(Bootstrap& bootstrap, const Nodes& nodes,
                                 std::span<const NetWish> wishes,
                                 const std::shared_ptr<Backend>& backend, int threads);

}  // namespace plait
