// Which transport carries the traffic between nodes.
#pragma once
#include <cstdint>
#include <memory>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait {

/// What errors say that a rank does.
inline constexpr const char* connecting_nodes = "connecting the nodes";

/// What PLAIT_NET_GDR says.
enum class DirectMemory : std::int8_t { none = -1, off = 0, on = 1 };

struct ChosenTransport {
  std::unique_ptr<transport::Transport> transport;
  bool is_checked = false;  // PLAIT_NET_CHECK
  DirectMemory direct_memory = DirectMemory::none;
};

/// What PLAIT_NET names: sockets, the plug-in of PLAIT_NET_PLUGIN, or MPI. Without PLAIT_NET it is
/// the plug-in if one is named, else sockets. Collective. All ranks get the same kind, or throw
/// Error(mismatch) if these differ, or what PLAIT_NET_CHECK and PLAIT_NET_GDR say. If one rank
/// can't have it, all throw why; so they do if a rank's sockets would listen where a rank of
/// another network can't reach them. `backend`: of this rank's device; where a node has a network
/// device for each, it takes the one of the device's number. `threads`: those that move large
/// messages over sockets, unless PLAIT_NET_THREADS says otherwise.
ChosenTransport choose_transport(Bootstrap& bootstrap, const Nodes& nodes,
                                 const std::shared_ptr<Backend>& backend, int threads);

}  // namespace plait
