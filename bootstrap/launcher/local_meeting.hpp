// How the ranks of one node meet, if all they share is the name of their job.
#pragma once
#include <string>

#include "bootstrap/socket/meeting.hpp"

namespace plait::detail {

/// Rank 0 listens at an abstract Unix socket, whose name is made of `job` and the user, and the
/// others call it there. No network is needed, and nothing is left behind.
///
/// The system tells each side the other's user, so no other user can join. Another user can't keep
/// the ranks from meeting, either: if the name is taken, rank 0 adds a random number to it, and the
/// others find it in the system's list of sockets.
///
/// Throws what `make_socket_bootstrap` says. All ranks must be in one network namespace.
SocketMeeting meet_locally(const std::string& job, const Secret& secret, const Arrival& mine);

}  // namespace plait::detail
