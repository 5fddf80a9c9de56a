#include "bootstrap/socket/door.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>

#include "bootstrap/socket/connection.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr std::size_t most_callers = 256;  // that have not shown the secret yet
// TCP sends lost words again after some 1, 3, 7, 15, 31 seconds where a packet takes 200 ms.
constexpr std::chrono::seconds patience{60};

static_assert(std::is_trivially_copyable_v<Hello>);
constexpr std::size_t common_bytes = offsetof(Hello, protocol) + sizeof(Hello::protocol);

}  // namespace

bool equal(const Secret::Half& a, const Secret::Half& b) {
  unsigned difference = 0;
  for (std::size_t at = 0; at < a.size(); ++at)
    difference |= static_cast<unsigned>(a[at]) ^ static_cast<unsigned>(b[at]);
  return difference == 0;
}

Door::~Door() {
  if (listener_.valid()) ::shutdown(listener_.get(), SHUT_RDWR);
}

bool Door::accept_some(std::vector<Visitor>& visitors) {
  constexpr int most_at_once = 64;
  for (int taken = 0; taken < most_at_once; ++taken) {
    GroupFd socket(new_fd([&] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }));
    if (socket.valid() && is_of_another_user(socket.get())) continue;
    if (socket.valid()) {
      prepare_connection(socket.get());
      // A rank says its words with its call, so they may be there already.
      if (callers_.size() == most_callers) hear_all(visitors);
      if (callers_.size() == most_callers) callers_.pop_front();
      callers_.push_back(
          {.socket = std::move(socket), .since = std::chrono::steady_clock::now(), .bytes = {}});
      continue;
    }
    const int error = errno;
    if (error == EAGAIN) return false;
    if (error == ENOBUFS || error == ENOMEM || error == EPERM) {  // the last: a firewall's word
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return false;
    }
    const bool is_full = error == EMFILE || error == ENFILE;
    if (is_full) hear_all(visitors);
    if ((is_full && callers_.empty()) || error == EBADF || error == EINVAL)
      throw Error(ErrorCode::bootstrap, fmt::format("accept: {}", system_text(error)));
    // Else the caller has gone already, or its network has failed: that is nothing to this rank.
    if (is_full) callers_.pop_front();
  }
  return true;
}

Door::State Door::hear(Caller& caller) const {
  if (receive_rest(caller.socket.get(), caller.bytes, caller.received)) return State::refused;
  if (caller.received < common_bytes) return State::waiting;
  Hello hello;
  std::memcpy(static_cast<void*>(&hello), caller.bytes.data(), common_bytes);
  if (hello.magic != hello_magic || !equal(hello.proof, secret_.of_caller)) return State::refused;
  if (hello.protocol != socket_protocol) return State::known;  // its message may be shorter
  return caller.received == caller.bytes.size() ? State::known : State::waiting;
}

void Door::hear_all(std::vector<Visitor>& visitors) {
  const auto now = std::chrono::steady_clock::now();
  std::erase_if(callers_, [&](Caller& caller) {
    const State state = hear(caller);
    if (state == State::known) {
      Visitor& visitor = visitors.emplace_back(Visitor{std::move(caller.socket), {}});
      std::memcpy(static_cast<void*>(&visitor.hello), caller.bytes.data(), caller.received);
    }
    return state != State::waiting || now - caller.since > patience;
  });
}

std::vector<Visitor> Door::wait(std::vector<pollfd>& others, int milliseconds) {
  std::vector<pollfd> sockets = others;
  sockets.push_back({listener_.get(), POLLIN, 0});
  for (const Caller& caller : callers_) sockets.push_back({caller.socket.get(), POLLIN, 0});
  const int found = poll_some(sockets, milliseconds);
  for (std::size_t at = 0; at < others.size(); ++at)
    others[at].revents = found > 0 ? sockets[at].revents : static_cast<short>(0);
  std::vector<Visitor> visitors;
  hear_all(visitors);
  if (found == 0 || sockets[others.size()].revents == 0) return visitors;
  // Strangers that call without end don't keep this rank here.
  constexpr int most_turns = 16;
  for (int turn = 0; turn < most_turns && accept_some(visitors); ++turn) hear_all(visitors);
  hear_all(visitors);
  return visitors;
}

}  // namespace plait::detail
