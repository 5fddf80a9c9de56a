// Where ranks arrive: a listener that tells the ranks of a group from strangers.
#pragma once
#include <poll.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "bootstrap/socket/address.hpp"
#include "bootstrap/socket/group_fd.hpp"
#include "bootstrap/support.hpp"
#include "core/unique_fd.hpp"

namespace plait::detail {

/// The group's shared secret. A rank that calls shows one half, and the rank that it has called
/// answers with the other. So a program that listens at rank 0's address in its place learns only
/// half of it, and can't pass for rank 0.
struct Secret {
  using Half = std::array<unsigned char, 8>;
  Half of_caller{}, of_called{};
  bool operator==(const Secret&) const = default;
};
/// Takes the same time wherever the halves differ, so timing reveals nothing.
bool equal(const Secret::Half& a, const Secret::Half& b);

using FailureText = std::array<char, 384>;

/// The first message on every connection, from the rank that calls. The members up to `protocol`
/// stay as they are in all versions.
struct Hello {
  std::uint64_t magic = 0;
  Secret::Half proof{};
  std::uint32_t protocol = 0;
  std::int32_t rank = -1, size = 0;
  std::int32_t process = 0;
  std::uint64_t process_space = 0;
  Endpoint door{};  // where this rank listens for others
  NodeName node{};
  FailureText failure{};  // why this rank can't take part; empty if it can
};
inline constexpr std::uint64_t hello_magic = 0x6f6c6c6568706c61;
inline constexpr std::uint32_t socket_protocol = 1;

struct Visitor {
  GroupFd socket;
  Hello hello;  // only the members up to `protocol` if that is another version's
};

/// Nothing that strangers send, or fail to send, keeps ranks out: each caller that has not shown
/// the secret yet has a minute and little memory, and the oldest go if there are too many.
class Door {
 public:
  Door(UniqueFd listener, const Secret& secret) : listener_(std::move(listener)), secret_(secret) {}

  /// Nothing listens there any more, also if a child or the parent of this process has a copy of
  /// the listener: a call that comes later is refused, and does not wait.
  ~Door();
  Door(Door&&) = default;
  Door& operator=(Door&&) = delete;

  /// Waits until a caller connects, a socket of `others` is readable, or the time is over. Fills in
  /// the `revents` of `others`. Returns the callers that have shown the secret. Throws
  /// Error(bootstrap) if the system refuses.
  std::vector<Visitor> wait(std::vector<pollfd>& others, int milliseconds);

 private:
  struct Caller {
    GroupFd socket;
    std::chrono::steady_clock::time_point since;
    std::array<std::byte, sizeof(Hello)> bytes;
    std::size_t received = 0;
  };
  enum class State { waiting, known, refused };

  /// Takes some of the calls that wait. False if none is left.
  bool accept_some(std::vector<Visitor>& visitors);
  void hear_all(std::vector<Visitor>& visitors);
  State hear(Caller& caller) const;

  GroupFd listener_;
  Secret secret_;
  std::deque<Caller> callers_;  // the oldest first
};

}  // namespace plait::detail
