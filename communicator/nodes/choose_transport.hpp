// Which transport carries the traffic between nodes.
#pragma once
#include <memory>

#include "backends/backend.hpp"
#include "bootstrap/nodes.hpp"
#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait {

/// What errors say that a rank does.
inline constexpr const char* connecting_nodes = "connecting the nodes";

/// What PLAIT_NET names: sockets, the plug-in of PLAIT_NET_PLUGIN, or MPI. Without PLAIT_NET it is
/// the plug-in if one is named, else sockets. Collective. All ranks get the same kind, or throw
/// Error(mismatch) if their kinds differ. If one rank can't have it, all throw why; so they do if a
/// rank's sockets would listen where a rank of another network can't reach them. `backend`: of
/// this rank's device; where a node has a network device for each, it takes the one of the device's
/// number. `threads`: those that move large messages over sockets, unless PLAIT_NET_THREADS says
/// otherwise.
std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap, const Nodes& nodes,
                                                       const std::shared_ptr<Backend>& backend,
                                                       int threads);

}  // namespace plait
