#include "backends/hip/lease.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "core/standard_fds.hpp"
#include "plait/error.hpp"

namespace plait::hip {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Error(ErrorCode::backend,
              fmt::format("sharing device memory: {}: {}", what, std::strerror(errno)));
}

}  // namespace

Lease::Lease(std::span<const std::byte> offer) {
  int ends[2];
  const StandardFdsTaken taken;
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  mine_ = StandardFdsTaken::own(ends[0]);
  theirs_ = StandardFdsTaken::own(ends[1]);
  if (::send(mine_.get(), offer.data(), offer.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(offer.size()))
    fail("send");
}

bool Lease::ended() const {
  pollfd end{mine_.get(), 0, 0};
  return ::poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

void Lease::read(const UniqueFd& theirs, std::span<std::byte> offer) {
  const ssize_t bytes =
      ::recv(theirs.get(), offer.data(), offer.size(), MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC);
  if (bytes < 0) fail("recv");
  if (bytes != static_cast<ssize_t>(offer.size()))
    throw Error(ErrorCode::backend,
                fmt::format("sharing device memory: a peer offers {} bytes where {} were expected",
                            bytes, offer.size()));
}

}  // namespace plait::hip
