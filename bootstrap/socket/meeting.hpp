// How the ranks of a unique id find each other.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/socket/door.hpp"
#include "bootstrap/socket/socket_link.hpp"
#include "core/unique_fd.hpp"

namespace plait::detail {

/// One rank's arguments of a meeting.
struct Arrival {
  const char* call;  // for errors
  int rank, size;
  std::chrono::nanoseconds limit;
  Deadline deadline{limit};
  std::string failure{};      // why this rank can't take part; empty if it can
  bool across_nodes = false;  // known beforehand to have ranks on several nodes
};

struct SocketMeeting {
  std::shared_ptr<SocketLink> link;
  std::vector<int> nodes;  // of each rank
  std::uint64_t context;   // for the group's messages
};

/// Rank 0's side: `listener` is where the others call. Both sides throw what
/// `make_socket_bootstrap` says.
SocketMeeting meet_at(UniqueFd listener, const Secret& secret, const Arrival& mine);
/// The other ranks' side. `may_come_first`: rank 0 may not listen yet.
SocketMeeting meet_with(const Endpoint& root, const Secret& secret, bool may_come_first,
                        const Arrival& mine);

}  // namespace plait::detail
