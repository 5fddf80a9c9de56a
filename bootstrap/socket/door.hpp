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
#include "bootstrap/support.hpp"
#include "core/unique_fd.hpp"

namespace plait::detail {

/// What the ranks of a group know and no stranger does. A rank that calls shows one half, and the
/// rank that it has called answers with the other. So a stranger that listens at an address of the
/// group learns only half of it, and can't answer.
struct Secret {
  using Half = std::array<unsigned char, 8>;
  Half of_caller{}, of_called{};
  bool operator==(const Secret&) const = default;
};
/// Takes equally long whatever differs.
bool equal(const Secret::Half& a, const Secret::Half& b);

using FailureText = std::array<char, 384>;
FailureText failure_text(const std::string& words);

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
  UniqueFd socket;
  Hello hello;  // only the members up to `protocol` if that is another version's
};

/// Nothing that strangers send, or fail to send, keeps ranks out: each caller that has not shown
/// the secret yet has five seconds and little memory, and the oldest go if there are too many.
class Door {
 public:
  Door(UniqueFd listener, const Secret& secret) : listener_(std::move(listener)), secret_(secret) {}

  /// Waits until somebody calls, a socket of `others` is readable, or the time is over. Fills in
  /// the `revents` of `others`. Returns the callers that have shown the secret.
  std::vector<Visitor> wait(std::vector<pollfd>& others, int milliseconds);

 private:
  struct Caller {
    UniqueFd socket;
    std::chrono::steady_clock::time_point since;
    std::array<std::byte, sizeof(Hello)> bytes;
    std::size_t received = 0;
  };
  enum class State { waiting, known, refused };

  void accept_all();
  State hear(Caller& caller) const;

  UniqueFd listener_;
  Secret secret_;
  std::deque<Caller> callers_;  // the oldest first
};

}  // namespace plait::detail
