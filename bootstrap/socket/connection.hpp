// Messages of known size over one connection, each within a time.
#pragma once
#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/door.hpp"
#include "bootstrap/socket/group_fd.hpp"
#include "bootstrap/support.hpp"
#include "plait/error.hpp"

namespace plait::detail {

/// Message between rank 0 and another rank after the Hello. A called rank also answers its caller
/// with one.
struct Note {
  enum class Type : std::uint32_t {
    welcome,  // of the called rank: it knows the secret, too. From rank 0, the ranks' places follow
    ready,    // to rank 0: the sender is connected to all ranks
    go,       // from rank 0: all ranks are ready
    expired,  // to rank 0: the sender's time is over
    failed,   // either way: the sender has given up, for the reason in the text
  };
  std::uint64_t magic = 0;
  Secret::Half proof{};
  Type type = Type::welcome;
  ErrorCode code = ErrorCode::bootstrap;
  FailureText text{};
};

/// Connects, or returns none if nothing of this user's listens there. `retry`: tries again until
/// the deadline. Throws Error(bootstrap) if the network fails.
std::optional<GroupFd> connect_to(const Endpoint& endpoint, const Deadline& deadline, bool retry);

/// Polls; an interruption ends it, too. Throws Error(bootstrap) if the system refuses.
int poll_some(std::span<pollfd> sockets, int milliseconds);
/// Sends or receives as much of the rest of a message as it can without waiting. `done` counts.
/// Returns the error with which the connection has ended, or 0 if the other side has closed it;
/// none while it stands.
std::optional<int> send_rest(int socket, std::span<const std::byte> message, std::size_t& done);
std::optional<int> receive_rest(int socket, std::span<std::byte> message, std::size_t& done);

enum class Transfer { done, closed, expired };
/// Sends or receives all of it, whatever the mode of the socket.
Transfer send_all(int socket, const void* data, std::size_t bytes, const Deadline& deadline);
Transfer receive_all(int socket, void* data, std::size_t bytes, const Deadline& deadline);

template <class T>
Transfer send_one(int socket, const T& message, const Deadline& deadline) {
  return send_all(socket, &message, sizeof message, deadline);
}
template <class T>
Transfer receive_one(int socket, T& message, const Deadline& deadline) {
  return receive_all(socket, &message, sizeof message, deadline);
}

}  // namespace plait::detail
