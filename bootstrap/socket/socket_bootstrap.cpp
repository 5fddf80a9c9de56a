#include "bootstrap/socket/socket_bootstrap.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <string>

#include "bootstrap/socket/unique_id.hpp"
#include "plait/error.hpp"

namespace plait {
namespace detail {

namespace {

/// A group takes a descriptor per rank, and a process may have fewer than it is allowed to.
void make_room_for(const char* call, int rank, int size) {
  constexpr rlim_t others = 64;  // of the program, and of meeting
  const rlim_t needed = static_cast<rlim_t>(size) + others;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  if (limit.rlim_max < needed)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: rank {}: {} ranks, but this process may have only {} open files",
                            call, rank, size, limit.rlim_max));
  limit.rlim_cur = needed;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Arrival arrive(const char* call, int rank, int size,
               std::optional<std::chrono::nanoseconds> wanted) {
  if (size > 1) make_room_for(call, rank, size);
  std::string failure;
  const std::chrono::nanoseconds limit = limit_of_meeting(wanted, failure);
  return {.call = call, .rank = rank, .size = size, .limit = limit, .failure = failure};
}

std::unique_ptr<LinkBootstrap> group_of(SocketMeeting meeting, const Arrival& mine) {
  std::vector<int> ranks(meeting.nodes.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return std::make_unique<LinkBootstrap>(std::move(meeting.link), meeting.context, std::move(ranks),
                                         meeting.nodes, mine.rank, mine.limit);
}

}  // namespace detail

std::unique_ptr<Bootstrap> make_socket_bootstrap(const UniqueId& id, int rank, int size,
                                                 std::optional<std::chrono::nanoseconds> timeout) {
  constexpr const char* call = "make_socket_bootstrap";
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::invalid_argument, fmt::format("{}: rank {}: {}", call, rank, why));
  };
  if (size < 1) throw refuse(fmt::format("{} ranks, but at least 1 is needed", size));
  if (rank < 0 || rank >= size) throw refuse(fmt::format("there are {} ranks", size));
  const auto read = [&] {
    try {
      return detail::contents_of(id);
    } catch (const Error& error) {
      throw refuse(error.what());
    }
  };
  const detail::IdContents contents = read();
  const detail::Arrival mine = detail::arrive(call, rank, size, timeout);
  if (rank != 0)
    return detail::group_of(detail::meet_with(contents.root, contents.secret, false, mine), mine);
  auto listener = detail::take_listener(contents);
  if (!listener)
    throw refuse(
        "rank 0 must be in the process that created the id, or in a child of it, and an "
        "id serves one group");
  return detail::group_of(detail::meet_at(std::move(*listener), contents.secret, mine), mine);
}

}  // namespace plait
