// The side of the ranks that call rank 0: see meeting.cpp.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "bootstrap/socket/meeting.hpp"
#include "core/text.hpp"

namespace plait::detail {
namespace {

using namespace meeting;

class Member {
 public:
  Member(const Secret& secret, const Arrival& mine)
      : secret_(secret), mine_(mine), deadline_(mine.deadline), sockets_(index(mine.size)) {}

  SocketMeeting run(const CallRoot& call, bool may_come_first) {
    Door door = call_root(call, may_come_first);
    const Places places = hear_places();
    try {
      call_lower(places);
      hear_higher(door);
    } catch (const Error& error) {
      // The root's own words name the cause; this rank's failure may follow from it.
      tell_root(note(secret_.of_caller, Note::Type::failed, {error.code(), own_words(error)}));
      throw;
    }
    tell_root(note(secret_.of_caller, Note::Type::ready));
    if (hear_root().type != Note::Type::go)
      fail(mine_, {ErrorCode::bootstrap, "rank 0 answered out of turn"});
    hear_lower();
    return formed(std::move(sockets_), places, mine_.rank);
  }

 private:
  int root_socket() const { return sockets_[0].get(); }

  Door call_root(const CallRoot& call, bool may_come_first) {
    // Where rank 0 may come later, its port may be another program's, which closes the call.
    for (;;) {
      auto socket = call();
      if (!socket) fail(mine_, expired());
      sockets_[0] = std::move(*socket);
      Hello hello = greet(secret_, mine_, {});
      UniqueFd listener;
      try {
        listener = open_door();
        hello.door = own_end(listener.get());
      } catch (const Error& error) {  // rank 0 waits for this rank, so it must say so
        hello.failure = as_text<FailureText>(error.what());
      }
      Door door(std::move(listener), secret_);
      if (send_one(root_socket(), hello, deadline_) == Transfer::done &&
          is_answered(may_come_first))
        return door;
      ::usleep(20000);
    }
  }
  /// A listener at the address by which this rank reaches rank 0. On rank 0's own node that may be
  /// the loopback device, which other nodes can't reach.
  UniqueFd open_door() const {
    Endpoint own = own_end(root_socket());
    own.port = 0;
    return listen_at(mine_.across_nodes && is_loopback(own) ? choose_own_address() : own);
  }

  /// False if the connection ends without a word and is worth another attempt.
  bool is_answered(bool may_retry) {
    if (!may_retry) return true;
    pollfd entry{root_socket(), POLLIN, 0};
    std::byte first{};
    while (::poll(&entry, 1, deadline_.milliseconds_left(longest_poll)) <= 0)
      if (deadline_.expired()) return true;
    return ::recv(root_socket(), &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
  }

  Objection expired() const {
    return {ErrorCode::bootstrap, not_arrived({0}, mine_.call, mine_.limit)};
  }
  void tell_root(const Note& words) { send_one(root_socket(), words, Deadline(answer_time)); }

  /// The root's next note. Throws if the root has failed, is gone, or says nothing in time.
  Note hear_root() {
    Note heard;
    Transfer result = receive_one(root_socket(), heard, deadline_);
    const bool late = result == Transfer::expired;
    if (late) {
      tell_root(note(secret_.of_caller, Note::Type::expired));
      result = receive_one(root_socket(), heard, Deadline(answer_time));
    }
    if (result == Transfer::expired) fail(mine_, expired());
    if (result == Transfer::closed) fail(mine_, {ErrorCode::bootstrap, root_gone()});
    if (heard.magic != hello_magic || !equal(heard.proof, secret_.of_called))
      fail(mine_, {ErrorCode::bootstrap, "another program than rank 0 answers at its address"});
    if (heard.type == Note::Type::failed) fail(mine_, {heard.code, text_of(heard.text)});
    // The root reads that this rank's time is over, whatever it has sent meanwhile.
    if (late) fail(mine_, expired());
    return heard;
  }
  static std::string root_gone() {
    return "rank 0 closed the connection: it has given up or ended, or it has another id";
  }

  Places hear_places() {
    if (hear_root().type != Note::Type::welcome)
      fail(mine_, {ErrorCode::bootstrap, "rank 0 answered out of turn"});
    Places places{0, std::vector<Place>(index(mine_.size))};
    if (receive_one(root_socket(), places.context, deadline_) != Transfer::done ||
        receive_all(root_socket(), places.all.data(), places.all.size() * sizeof(Place),
                    deadline_) != Transfer::done)
      fail(mine_, {ErrorCode::bootstrap, root_gone()});
    return places;
  }

  void call_lower(const Places& places) {
    for (int rank = 1; rank < mine_.rank; ++rank) {
      Endpoint door = places.all[index(rank)].door;
      if (door.scope != 0) door.scope = own_end(root_socket()).scope;  // a machine's own number
      auto socket = connect_to(door, deadline_, false);
      if (!socket ||
          send_one(socket->get(), greet(secret_, mine_, {}), deadline_) != Transfer::done)
        give_way(fmt::format("rank {} does not answer at {}", rank, to_text(door)));
      sockets_[index(rank)] = std::move(*socket);
    }
  }

  void hear_higher(Door& door) {
    const auto first = sockets_.begin() + mine_.rank + 1;
    const auto absent = [](const GroupFd& socket) { return !socket.valid(); };
    for (auto next = first;
         (next = std::find_if(first, sockets_.end(), absent)) != sockets_.end();) {
      std::vector<pollfd> root{{root_socket(), POLLIN, 0}};
      auto visitors = door.wait(root, deadline_.milliseconds_left(longest_poll));
      for (Visitor& visitor : visitors) {
        const int rank = visitor.hello.rank;
        if (rank <= mine_.rank || rank >= mine_.size || sockets_[index(rank)].valid()) continue;
        send_one(visitor.socket.get(), note(secret_.of_called, Note::Type::welcome), deadline_);
        sockets_[index(rank)] = std::move(visitor.socket);
      }
      if (root[0].revents != 0) give_way("rank 0 answered out of turn");
      if (deadline_.expired())
        give_way(not_arrived({static_cast<int>(next - sockets_.begin())}, mine_.call, mine_.limit));
    }
  }

  /// Each has answered this rank before it was ready, and so before rank 0 let all go.
  void hear_lower() {
    for (int rank = 1; rank < mine_.rank; ++rank) {
      Note heard;
      const Transfer result = receive_one(sockets_[index(rank)].get(), heard, deadline_);
      if (result != Transfer::done || heard.magic != hello_magic ||
          !equal(heard.proof, secret_.of_called))
        fail(mine_, {ErrorCode::bootstrap, fmt::format("rank {} does not answer", rank)});
    }
  }

  /// Throws the root's words if it says something in a moment, because it may know why this rank
  /// has no connection to another.
  [[noreturn]] void give_way(const std::string& why) {
    pollfd entry{root_socket(), POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(farewell.count())) > 0) hear_root();
    fail(mine_, {ErrorCode::bootstrap, why});
  }

  /// Without what `fail` has put in front, because rank 0 does so, too.
  std::string own_words(const Error& error) const {
    const std::string words = error.what(),
                      front = fmt::format("{}: rank {}: ", mine_.call, mine_.rank);
    return words.starts_with(front) ? words.substr(front.size()) : words;
  }

  Secret secret_;
  const Arrival& mine_;
  Deadline deadline_;
  std::vector<GroupFd> sockets_;
};

}  // namespace

SocketMeeting meet_with(const Endpoint& root, const Secret& secret, bool may_come_first,
                        const Arrival& mine) {
  return Member(secret, mine)
      .run(
          [&] {
            if (auto socket = connect_to(root, mine.deadline, may_come_first)) return socket;
            if (mine.deadline.expired()) return std::optional<GroupFd>();
            fail(mine, {ErrorCode::bootstrap,
                        fmt::format("nothing listens at {}: rank 0 has given up or "
                                    "ended, or all ranks of this id have met already",
                                    to_text(root))});
          },
          may_come_first);
}

SocketMeeting meet_by(const CallRoot& call, const Secret& secret, const Arrival& mine) {
  return Member(secret, mine).run(call, true);
}

}  // namespace plait::detail
