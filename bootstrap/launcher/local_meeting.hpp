// How the ranks of one node hand a unique id around, if all they share is the name of their job.
#pragma once
#include <string>

#include "bootstrap/socket/meeting.hpp"
#include "plait/unique_id.hpp"

namespace plait::detail {

/// Rank 0 makes an id whose address is the loopback device's. All ranks get it.
///
/// The id goes through an abstract Unix socket, whose name is made of `job` and the user. The
/// system tells each side the other's user, so no other user can read the id or give a wrong one,
/// and nothing is left behind. Throws Error(bootstrap) if not all come in time; rank 0 names the
/// missing ones.
UniqueId share_id(const std::string& job, const Arrival& mine);

}  // namespace plait::detail
