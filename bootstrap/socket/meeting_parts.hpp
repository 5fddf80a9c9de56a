// What both sides of a meeting use.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/meeting.hpp"
#include "plait/error.hpp"

namespace plait::detail::meeting {

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

}  // namespace plait::detail::meeting
