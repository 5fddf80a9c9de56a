#include "bootstrap/launcher/local_meeting.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <vector>

#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "bootstrap/support.hpp"
#include "core/unique_fd.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr const char* call = "make_world_bootstrap";
constexpr int longest_poll = 100;            // milliseconds
constexpr std::chrono::seconds patience{5};  // for one rank to say its number

/// FNV-1a, because a name may be longer than an address.
std::uint64_t hash(const std::string& text) {
  std::uint64_t value = 0xcbf29ce484222325u;
  for (const char letter : text)
    value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3u;
  return value;
}

struct LocalAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit LocalAddress(const std::string& job) {
    const std::string name = fmt::format("plait-world-{}-{:016x}", ::getuid(), hash(job));
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: a zero in front
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd local_socket() {
  return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_same_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

[[noreturn]] void fail(int rank, const std::string& why) {
  throw Error(ErrorCode::bootstrap, fmt::format("{}: rank {}: {}", call, rank, why));
}
std::string system_text() { return std::generic_category().message(errno); }

/// Rank 0's side.
UniqueId hand_out(const LocalAddress& place, int size, std::chrono::nanoseconds limit) {
  const Deadline deadline(limit);
  const UniqueFd listener = local_socket();
  // A rank 0 of an earlier attempt may have ended a moment ago.
  const Deadline last(std::min<std::chrono::nanoseconds>(
      limit > std::chrono::nanoseconds::zero() ? limit : patience, patience));
  while (::bind(listener.get(), place.get(), place.length) != 0) {
    if (errno != EADDRINUSE || last.expired())
      fail(0, fmt::format("the meeting place of this job: {}", system_text()));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  if (::listen(listener.get(), SOMAXCONN) != 0) fail(0, system_text());
  Endpoint loopback;
  loopback.host[0] = 127, loopback.host[3] = 1;
  const UniqueId id = create_id_at(loopback);
  std::vector<bool> served(static_cast<std::size_t>(size));
  served[0] = true;
  while (std::find(served.begin(), served.end(), false) != served.end()) {
    if (deadline.expired()) {
      std::vector<int> missing;
      for (int rank = 1; rank < size; ++rank)
        if (!served[static_cast<std::size_t>(rank)]) missing.push_back(rank);
      take_listener(contents_of(id));  // closes it
      fail(0, not_arrived(missing, call, limit));
    }
    pollfd entry{listener.get(), POLLIN, 0};
    if (::poll(&entry, 1, deadline.milliseconds_left(longest_poll)) <= 0) continue;
    const UniqueFd caller(
        ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    std::int32_t rank = -1;
    if (!caller.valid() || !is_same_user(caller.get()) ||
        receive_one(caller.get(), rank, Deadline(patience)) != Transfer::done)
      continue;
    if (rank > 0 && rank < size && send_one(caller.get(), id, Deadline(patience)) == Transfer::done)
      served[static_cast<std::size_t>(rank)] = true;
  }
  return id;
}

}  // namespace

UniqueId share_id(const std::string& job, int rank, int size, std::chrono::nanoseconds limit) {
  const LocalAddress place(job);
  if (rank == 0) return hand_out(place, size, limit);
  const Deadline deadline(limit);
  for (;;) {
    const UniqueFd socket = local_socket();
    if (!socket.valid()) fail(rank, system_text());
    UniqueId id;
    if (::connect(socket.get(), place.get(), place.length) == 0) {
      if (!is_same_user(socket.get()))
        fail(rank, "another user has taken the meeting place of this job");
      // If rank 0 ends meanwhile, another may come.
      if (send_one(socket.get(), std::int32_t{rank}, deadline) == Transfer::done &&
          receive_one(socket.get(), id, deadline) == Transfer::done)
        return id;
    } else if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      fail(rank, fmt::format("the meeting place of this job: {}", system_text()));
    }
    if (deadline.expired()) fail(rank, not_arrived({0}, call, limit));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace plait::detail
