// How the ranks of a unique id find each other.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/door.hpp"
#include "bootstrap/socket/socket_link.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"

namespace plait::detail {

/// One rank's arguments of a meeting.
struct Arrival {
  const char* call;  // for errors
  int rank, size;
  std::chrono::nanoseconds limit;
  Deadline deadline{limit};
  std::string failure{};  // why this rank can't take part; empty if it can
  ErrorCode failure_code = ErrorCode::invalid_argument;
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
/// A connection to rank 0, or none if the time is over.
using CallRoot = std::function<std::optional<GroupFd>()>;
/// The same where rank 0 is found by `call`, and may not listen yet.
SocketMeeting meet_by(const CallRoot& call, const Secret& secret, const Arrival& mine);
/// A caller's first words.
Hello greet(const Secret& secret, const Arrival& mine, const Endpoint& door);

/// What both sides use.
namespace meeting {

inline constexpr int longest_poll = 100;  // milliseconds
/// How long rank 0 still tells those that come why the meeting has failed.
inline constexpr std::chrono::milliseconds farewell{300};
/// How long a rank whose time is over waits for rank 0 to say who is missing.
inline constexpr std::chrono::milliseconds answer_time{800};

inline std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

struct Objection {
  ErrorCode code;
  std::string text;
};
[[noreturn]] void fail(const Arrival& mine, const Objection& why);

/// One rank's entry in the list that rank 0 sends to all ranks.
struct Place {
  Endpoint door;
  std::int32_t process;
  std::int32_t node;
  std::uint64_t process_space;
};
struct Places {
  std::uint64_t context = 0;
  std::vector<Place> all;
};

Note note(const Secret::Half& proof, Note::Type type, const Objection& why = {});
std::string text_of(const FailureText& text);
SocketMeeting formed(std::vector<GroupFd> sockets, const Places& places, int rank);

}  // namespace meeting

}  // namespace plait::detail
