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
#include "bootstrap/socket/group_fd.hpp"
#include "bootstrap/socket/unique_id.hpp"
#include "bootstrap/support.hpp"
#include "core/standard_fds.hpp"
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

GroupFd local_socket() {
  return GroupFd(
      new_fd([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }));
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
class Host {
 public:
  Host(const LocalAddress& place, const Arrival& mine)
      : mine_(mine), listener_(local_socket()), served_(static_cast<std::size_t>(mine.size)) {
    // A rank 0 of an earlier attempt may have ended a moment ago.
    const Deadline last(patience);
    while (::bind(listener_.get(), place.get(), place.length) != 0) {
      if (errno != EADDRINUSE || last.expired() || mine_.deadline.expired())
        fail(0, fmt::format("the meeting place of this job: {}", system_text()));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (::listen(listener_.get(), SOMAXCONN) != 0) fail(0, system_text());
    served_[0] = true;
  }

  void hand_out(const UniqueId& id) {
    while (!missing().empty()) {
      if (mine_.deadline.expired()) fail(0, not_arrived(missing(), call, mine_.limit));
      std::vector<pollfd> sockets{{listener_.get(), POLLIN, 0}};
      for (const Caller& caller : callers_) sockets.push_back({caller.socket.get(), POLLIN, 0});
      ::poll(sockets.data(), sockets.size(), mine_.deadline.milliseconds_left(longest_poll));
      accept_one();
      std::erase_if(callers_, [&](const Caller& caller) { return serve(caller, id); });
    }
  }

 private:
  struct Caller {
    GroupFd socket;
    std::chrono::steady_clock::time_point since;
  };

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank < mine_.size; ++rank)
      if (!served_[static_cast<std::size_t>(rank)]) ranks.push_back(rank);
    return ranks;
  }
  void accept_one() {
    constexpr std::size_t most_callers = 256;
    GroupFd socket(new_fd([&] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }));
    const bool exhausted = !socket.valid() && (errno == EMFILE || errno == ENFILE);
    if (exhausted && callers_.empty()) fail(0, system_text());
    if (exhausted || callers_.size() == most_callers) callers_.erase(callers_.begin());
    if (socket.valid() && is_same_user(socket.get()))
      callers_.push_back({std::move(socket), std::chrono::steady_clock::now()});
  }
  /// True if nothing more is to be said.
  bool serve(const Caller& caller, const UniqueId& id) {
    std::int32_t rank = -1;
    const ssize_t got = ::recv(caller.socket.get(), &rank, sizeof rank, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
      return std::chrono::steady_clock::now() - caller.since > patience;
    // So few bytes come and go in one piece.
    if (got == sizeof rank && rank > 0 && rank < mine_.size &&
        ::send(caller.socket.get(), &id, sizeof id, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof id)
      served_[static_cast<std::size_t>(rank)] = true;
    return true;
  }

  const Arrival& mine_;
  GroupFd listener_;
  std::vector<bool> served_;
  std::vector<Caller> callers_;
};

UniqueId hand_out(const LocalAddress& place, const Arrival& mine) {
  Host host(place, mine);
  Endpoint loopback;
  loopback.host[0] = 127, loopback.host[3] = 1;
  const UniqueId id = create_id_at(loopback);
  try {
    host.hand_out(id);
  } catch (const Error&) {
    discard(id);
    throw;
  }
  return id;
}

}  // namespace

UniqueId share_id(const std::string& job, const Arrival& mine) {
  const LocalAddress place(job);
  if (mine.rank == 0) return hand_out(place, mine);
  const int rank = mine.rank;
  for (;;) {
    const GroupFd socket = local_socket();
    if (!socket.valid()) fail(rank, system_text());
    UniqueId id;
    if (::connect(socket.get(), place.get(), place.length) == 0) {
      if (!is_same_user(socket.get()))
        fail(rank, "another user has taken the meeting place of this job");
      // If rank 0 ends meanwhile, another may come.
      if (send_one(socket.get(), std::int32_t{rank}, mine.deadline) == Transfer::done &&
          receive_one(socket.get(), id, mine.deadline) == Transfer::done)
        return id;
    } else if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) {
      fail(rank, fmt::format("the meeting place of this job: {}", system_text()));
    }
    if (mine.deadline.expired()) fail(rank, not_arrived({0}, call, mine.limit));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace plait::detail
