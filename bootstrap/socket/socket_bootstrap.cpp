#include "bootstrap/socket/socket_bootstrap.hpp"

#include <fmt/format.h>

#include "bootstrap/socket/unique_id.hpp"
#include "plait/error.hpp"

namespace plait {
namespace detail {

Arrival arrive(const char* call, int rank, int size,
               std::optional<std::chrono::nanoseconds> wanted) {
  Arrival mine{call, rank, size, std::chrono::minutes{10}, {}};
  try {
    mine.limit = wanted ? *wanted : timeout_of_environment();
  } catch (const Error& error) {
    mine.failure = error.what();
  }
  return mine;
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
