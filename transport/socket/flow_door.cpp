#include "transport/socket/flow_door.hpp"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "bootstrap/socket/connection.hpp"
#include "core/standard_fds.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "transport/socket/socket_transport.hpp"

namespace plait::transport {
namespace {

using plait::detail::GroupFd;
using std::chrono::steady_clock;

constexpr std::size_t most_callers = 256;  // that have not shown the secret yet
constexpr std::chrono::seconds patience{5};
/// For the other connections of a flow whose rank is known. It is longer than a rank tries to
/// connect, so only flows that their rank has given up run out of it.
constexpr std::chrono::seconds patience_with_ranks{120};

}  // namespace

std::uint64_t random_word() {
  std::uint64_t word = 0;
  if (::getrandom(&word, sizeof word, 0) != sizeof word) plait::detail::throw_errno("getrandom");
  return word;
}

FlowDoor::FlowDoor(const plait::detail::Endpoint& own, const plait::detail::Secret& secret,
                   std::shared_ptr<Waiter> waiter)
    : number_(random_word()),
      secret_(secret),
      waiter_(std::move(waiter)),
      listener_(GroupFd(plait::detail::listen_at(own)), waiter_),
      endpoint_(plait::detail::own_end(listener_.get())) {}

void FlowDoor::advance() {
  accept_all();
  hear_all();
  const auto now = steady_clock::now();
  std::erase_if(incomplete_,
                [&](const auto& entry) { return now - entry.second.since > patience_with_ranks; });
}

FlowSockets FlowDoor::take() {
  if (complete_.empty()) return {};
  FlowSockets first = std::move(complete_.front());
  complete_.pop_front();
  return first;
}

void FlowDoor::accept_all() {
  // Strangers that call without end don't keep this rank here.
  constexpr int most_at_once = 1024;
  for (int taken = 0; taken < most_at_once; ++taken) {
    GroupFd socket(new_fd([&] {
      return ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }));
    if (socket.valid()) {
      out_of_files_since_.reset();
      plait::detail::prepare_connection(socket.get());
      // A rank says its words with its call, so they may be there already.
      if (callers_.size() == most_callers) hear_all();
      if (callers_.size() == most_callers) callers_.pop_front();
      callers_.push_back({.socket = WatchedSocket(std::move(socket), waiter_),
                          .since = steady_clock::now(),
                          .bytes = {}});
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == ENOBUFS || error == ENOMEM || error == EPERM) return;
    if (error == EMFILE || error == ENFILE) {
      hear_all();
      if (!callers_.empty()) {
        callers_.pop_front();
        continue;
      }
      if (!out_of_files_since_) out_of_files_since_ = steady_clock::now();
      if (steady_clock::now() - *out_of_files_since_ < patience_with_files) return;
    }
    if (error == EMFILE || error == ENFILE || error == EBADF || error == EINVAL)
      throw Error(ErrorCode::bootstrap, fmt::format("accepting connections at {}: {}",
                                                    to_text(endpoint_), system_text(error)));
    // Everything else is the end of that one call.
  }
}

void FlowDoor::hear_all() {
  const auto now = steady_clock::now();
  std::erase_if(callers_, [&](Caller& caller) {
    const bool has_ended =
        plait::detail::receive_rest(caller.socket.get(), caller.bytes, caller.received).has_value();
    const bool is_known = caller.received == caller.bytes.size();
    if (is_known) admit(caller);
    return has_ended || is_known || now - caller.since > patience;
  });
}

void FlowDoor::admit(Caller& caller) {
  FlowHello hello;
  std::memcpy(&hello, caller.bytes.data(), sizeof hello);
  if (hello.magic != flow_hello_magic || !plait::detail::equal(hello.proof, secret_.of_caller) ||
      hello.listener != number_ || hello.index >= hello.number ||
      hello.number > SocketOptions::most_connections)
    return;
  // The socket is new, so these few bytes fit in.
  const FlowAnswer answer{flow_answer_magic, secret_.of_called};
  if (::send(caller.socket.get(), &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) !=
      static_cast<ssize_t>(sizeof answer))
    return;
  const auto [entry, is_new] = incomplete_.try_emplace(hello.flow);
  Incomplete& flow = entry->second;
  if (is_new) {
    flow.sockets.resize(hello.number);
    flow.missing = hello.number;
  }
  flow.since = steady_clock::now();
  if (hello.number != flow.sockets.size()) return;
  WatchedSocket& place = flow.sockets[hello.index];
  if (!place.valid()) --flow.missing;
  place = std::move(caller.socket);  // a rank calls again if it has seen its connection fail
  if (flow.missing > 0) return;
  complete_.push_back(std::move(flow.sockets));
  incomplete_.erase(entry);
}

}  // namespace plait::transport
