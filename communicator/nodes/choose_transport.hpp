// Which transport carries the traffic between nodes.
#pragma once
#include <memory>

#include "plait/bootstrap.hpp"
#include "transport/transport.hpp"

namespace plait {

/// The transport that `PLAIT_NET` names, else sockets. Collective; all ranks get the same kind.
std::unique_ptr<transport::Transport> choose_transport(Bootstrap& bootstrap);

}  // namespace plait
