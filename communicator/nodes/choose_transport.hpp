// Which transport carries the traffic between nodes.
#pragma once
#include <memory>

#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait {

/// The plug-in that `PLAIT_NET_PLUGIN` names, else sockets. Collective. All ranks get the same
/// kind, or throw Error(mismatch) if only some name a plug-in. `device`: the number of this rank's
/// device; where a node has a network device for each, it takes the one of that number.
std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap, int device);

}  // namespace plait
