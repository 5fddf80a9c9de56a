#include "bootstrap/launcher/local_meeting.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bootstrap/socket/connection.hpp"
#include "bootstrap/socket/group_fd.hpp"
#include "bootstrap/support.hpp"
#include "core/standard_fds.hpp"

namespace plait::detail {
namespace {

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

  explicit LocalAddress(const std::string& name) {
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());  // abstract: a zero in front
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd local_socket() {
  return new_fd([] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); });
}

/// Where rank 0 of a job may listen.
class MeetingPlace {
 public:
  explicit MeetingPlace(const std::string& job)
      : name_(fmt::format("plait-world-{}-{:016x}", ::getuid(), hash(job))) {}

  /// A listener of rank 0.
  UniqueFd open() {
    UniqueFd listener = local_socket();
    own_ = name_;
    bool is_bound = bind(listener);
    for (int attempt = 0; !is_bound && errno == EADDRINUSE && attempt < 100; ++attempt) {
      own_ = fmt::format("{}-{:016x}", name_, draw_number());
      is_bound = bind(listener);
    }
    if (!is_bound || ::listen(listener.get(), SOMAXCONN) != 0)
      throw_errno(fmt::format("listening at @{}", own_));
    return listener;
  }

  /// A connection to a rank 0 of this user other than this process's own listener, if there is one.
  std::optional<GroupFd> call() const {
    for (const std::string& name : names()) {
      if (name == own_) continue;
      const LocalAddress address(name);
      GroupFd socket(local_socket());
      if (socket.valid() && ::connect(socket.get(), address.get(), address.length) == 0 &&
          !is_of_another_user(socket.get()))
        return socket;
    }
    return std::nullopt;
  }

 private:
  bool bind(const UniqueFd& socket) const {
    const LocalAddress address(own_);
    return ::bind(socket.get(), address.get(), address.length) == 0;
  }
  /// The first name needs no list, which is part of /proc.
  std::vector<std::string> names() const {
    std::vector<std::string> all{name_};
    const std::string front = "@" + name_ + "-";
    const StandardFdsTaken taken;
    std::ifstream list("/proc/net/unix");
    for (std::string line; std::getline(list, line);) {
      const std::size_t at = line.rfind(' ') + 1;
      if (line.compare(at, front.size(), front) == 0 && line.size() - at < longest)
        all.push_back(line.substr(at + 1));
    }
    return all;
  }
  static constexpr std::size_t longest = sizeof(sockaddr_un::sun_path);

  std::string name_, own_;
};

/// True if another rank 0 listens, and tells it of this one. One of an earlier attempt may be about
/// to end. Both listen before they look, so at least one of two finds the other.
bool finds_twin(const MeetingPlace& place, const Secret& secret, const Arrival& mine) {
  const Deadline last(std::chrono::seconds(1));
  while (const auto twin = place.call()) {
    if (last.expired())
      return send_one(twin->get(), greet(secret, mine, {}), last) == Transfer::done;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

}  // namespace

SocketMeeting meet_locally(const std::string& job, const Secret& secret, const Arrival& mine) {
  MeetingPlace place(job);
  if (mine.rank == 0) {
    UniqueFd listener = place.open();
    Arrival here = mine;
    if (finds_twin(place, secret, mine)) {
      here.failure = "two ranks passed rank 0";
      here.failure_code = ErrorCode::mismatch;
    }
    return meet_at(std::move(listener), secret, here);
  }
  const auto call = [&]() -> std::optional<GroupFd> {
    for (std::chrono::milliseconds pause{1};; pause = std::min(2 * pause, decltype(pause)(100))) {
      if (auto socket = place.call()) return socket;
      if (mine.deadline.expired()) return std::nullopt;
      std::this_thread::sleep_for(pause);
    }
  };
  return meet_by(call, secret, mine);
}

}  // namespace plait::detail
