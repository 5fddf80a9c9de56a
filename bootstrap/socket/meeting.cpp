// The steps, which need no thread and no second round of calls:
//
// 1. Rank 0 listens at the address in the id. Every other rank opens a door of its own, calls rank
//    0, and says who it is and where its door is (Hello).
// 2. When all have called, rank 0 sends each of them the places of all (Note::welcome).
// 3. Each rank calls those with lower numbers at their doors, rank 0 excepted, and hears those with
//    higher numbers at its own. All doors are open before step 2, so no call is refused, and no
//    rank waits for an answer before it has made all its calls.
// 4. Each rank tells rank 0 that it is ready, and rank 0 tells all to go.
//
// A rank that gives up says why, and rank 0 passes it on. A rank whose process ends closes its
// connection to rank 0. A rank whose time is over says so; then rank 0, which alone knows who has
// come, names those that have not. So all ranks that come throw the same error in each step but the
// last: if rank 0 ends while it tells the others to go, some go, and find it missing in their first
// call.
#include "bootstrap/socket/meeting.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "bootstrap/process_state.hpp"
#include "bootstrap/socket/connection.hpp"
#include "core/process_space.hpp"
#include "plait/error.hpp"

namespace plait::detail {
namespace {

constexpr int longest_poll = 100;  // milliseconds
/// How long rank 0 still tells those that come why the meeting has failed.
constexpr std::chrono::milliseconds farewell{300};
/// How long a rank whose time is over waits for rank 0 to say who is missing.
constexpr std::chrono::milliseconds answer_time{800};

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

struct Objection {
  ErrorCode code;
  std::string text;
};
[[noreturn]] void fail(const Arrival& mine, const Objection& why) {
  throw Error(why.code, fmt::format("{}: rank {}: {}", mine.call, mine.rank, why.text));
}

/// One rank's entry in the list that rank 0 sends to all ranks.
struct Place {
  Endpoint door;
  std::int32_t process;
  std::int32_t node;
  std::uint64_t process_space;
};
struct Places {
  std::uint64_t context = 0;
  std::vector<Place> all;
};

Hello greet(const Secret& secret, const Arrival& mine, const Endpoint& door) {
  return {.magic = hello_magic,
          .proof = secret.of_caller,
          .protocol = socket_protocol,
          .rank = mine.rank,
          .size = mine.size,
          .process = static_cast<std::int32_t>(::getpid()),
          .process_space = process_space(),
          .door = door,
          .node = name_this_node(),
          .failure = failure_text(mine.failure)};
}

Note note(const Secret::Half& proof, Note::Type type, const Objection& why = {}) {
  return {.magic = hello_magic,
          .proof = proof,
          .type = type,
          .code = why.code,
          .text = failure_text(why.text)};
}

std::string text_of(const FailureText& text) {
  return {text.data(), ::strnlen(text.data(), text.size())};
}

SocketMeeting formed(std::vector<GroupFd> sockets, const Places& places, int rank) {
  const std::uint64_t my_space = places.all[index(rank)].process_space;
  const int my_node = places.all[index(rank)].node;
  std::vector<int> processes, nodes;
  for (const Place& place : places.all) {
    nodes.push_back(place.node);
    const bool near = place.node == my_node && place.process_space == my_space;
    processes.push_back(near ? visible_process(place.process, place.process_space) : 0);
  }
  return {std::make_shared<SocketLink>(std::move(sockets), std::move(processes)), std::move(nodes),
          places.context};
}

/// Rank 0's side.
class Root {
 public:
  Root(UniqueFd listener, const Secret& secret, const Arrival& mine)
      : door_(std::move(listener), secret),
        secret_(secret),
        mine_(mine),
        deadline_(mine.deadline),
        sockets_(index(mine.size)),
        hellos_(index(mine.size)),
        ready_(index(mine.size)) {
    hellos_[0] = greet(secret, mine, {});
    ready_[0] = true;
    if (!mine.failure.empty()) object({ErrorCode::invalid_argument, "rank 0: " + mine.failure});
  }

  SocketMeeting run() {
    Places places;
    try {
      while (!objection_ && !missing().empty()) step();
      if (!objection_) tell_places(places = place_all());
      while (!objection_ && std::find(ready_.begin(), ready_.end(), false) != ready_.end()) step();
    } catch (const Error& error) {
      object({error.code(), error.what()});
    }
    if (objection_) refuse_all();
    for (const GroupFd& socket : sockets_) tell(socket, note(secret_.of_called, Note::Type::go));
    return formed(std::move(sockets_), places, 0);
  }

 private:
  bool has_come(int rank) const { return rank == 0 || sockets_[index(rank)].valid(); }
  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < mine_.size; ++rank)
      if (!has_come(rank)) ranks.push_back(rank);
    return ranks;
  }
  void object(Objection why) {
    if (!objection_) objection_ = std::move(why);
  }

  /// Waits a moment for callers, and for notes of those that have come.
  void step() {
    std::vector<pollfd> others;
    for (const GroupFd& socket : sockets_) others.push_back({socket.get(), POLLIN, 0});
    auto visitors = door_.wait(others, deadline_.milliseconds_left(longest_poll));
    for (int rank = 1; rank < mine_.size; ++rank)
      if (others[index(rank)].revents != 0) hear(rank);
    for (Visitor& visitor : visitors) admit(std::move(visitor));
    if (deadline_.expired()) object(expired());
  }

  Objection expired() const {
    std::vector<int> late = missing();
    for (int rank = 0; rank < mine_.size && late.empty(); ++rank)
      if (!ready_[index(rank)]) late.push_back(rank);
    return {ErrorCode::bootstrap, not_arrived(late, mine_.call, mine_.limit)};
  }

  void hear(int rank) {
    GroupFd& socket = sockets_[index(rank)];
    Note heard;
    if (receive_one(socket.get(), heard, Deadline(answer_time)) != Transfer::done ||
        heard.magic != hello_magic) {
      socket = GroupFd();
      object({ErrorCode::bootstrap, ended_before({rank}, mine_.call)});
    } else if (heard.type == Note::Type::ready) {
      ready_[index(rank)] = true;
    } else if (heard.type == Note::Type::expired) {
      // Those that have just called may wait at the door.
      std::vector<pollfd> none;
      for (Visitor& visitor : door_.wait(none, 0)) admit(std::move(visitor));
      object(expired());
    } else {
      object({heard.code, fmt::format("rank {}: {}", rank, text_of(heard.text))});
    }
  }

  void admit(Visitor visitor) {
    const Hello& hello = visitor.hello;
    const auto refuse = [&](ErrorCode code, std::string why) {
      object({code, std::move(why)});
      refused_.push_back(std::move(visitor.socket));
    };
    if (hello.protocol != socket_protocol)
      return refuse(ErrorCode::mismatch, "ranks have different versions of the library");
    if (hello.size != mine_.size)
      return refuse(ErrorCode::mismatch, fmt::format("rank {} passed size {}, rank 0 passed {}",
                                                     hello.rank, hello.size, mine_.size));
    if (hello.rank < 1 || hello.rank >= mine_.size)
      return refuse(ErrorCode::mismatch,
                    fmt::format("rank {} called, but there are {} ranks", hello.rank, mine_.size));
    if (has_come(hello.rank))
      return refuse(ErrorCode::mismatch, fmt::format("two ranks passed rank {}", hello.rank));
    const std::string failure = text_of(hello.failure);
    if (!failure.empty())
      object({ErrorCode::invalid_argument, fmt::format("rank {}: {}", hello.rank, failure)});
    sockets_[index(hello.rank)] = std::move(visitor.socket);
    hellos_[index(hello.rank)] = hello;
  }

  /// Ranks that come within a moment still hear the reason.
  [[noreturn]] void refuse_all() {
    const Note reason = note(secret_.of_called, Note::Type::failed, *objection_);
    for (const auto* all : {&sockets_, &refused_})
      for (const GroupFd& socket : *all) tell(socket, reason);
    const Deadline last(farewell);
    while (!missing().empty() && !last.expired()) {
      std::vector<pollfd> none;
      for (Visitor& visitor : door_.wait(none, last.milliseconds_left(longest_poll))) {
        tell(visitor.socket, reason);
        const int rank = visitor.hello.rank;
        if (rank > 0 && rank < mine_.size) sockets_[index(rank)] = std::move(visitor.socket);
      }
    }
    fail(mine_, *objection_);
  }

  static void tell(const GroupFd& socket, const Note& words) {
    if (socket.valid()) send_one(socket.get(), words, Deadline(answer_time));
  }

  Places place_all() const {
    Places places{draw_number(), {}};
    for (const Hello& hello : hellos_) {
      std::size_t same = 0;
      while (hellos_[same].node != hello.node) ++same;
      places.all.push_back({.door = hello.door,
                            .process = hello.process,
                            .node = static_cast<std::int32_t>(same),
                            .process_space = hello.process_space});
    }
    return places;
  }

  void tell_places(const Places& places) {
    const Note welcome = note(secret_.of_called, Note::Type::welcome);
    for (const GroupFd& socket : sockets_) {
      tell(socket, welcome);
      if (!socket.valid()) continue;
      send_one(socket.get(), places.context, deadline_);
      send_all(socket.get(), places.all.data(), places.all.size() * sizeof(Place), deadline_);
    }
  }

  Door door_;
  Secret secret_;
  const Arrival& mine_;
  Deadline deadline_;
  std::vector<GroupFd> sockets_, refused_;
  std::vector<Hello> hellos_;
  std::vector<bool> ready_;
  std::optional<Objection> objection_;
};

/// The side of the other ranks.
class Member {
 public:
  Member(const Secret& secret, const Arrival& mine)
      : secret_(secret), mine_(mine), deadline_(mine.deadline), sockets_(index(mine.size)) {}

  SocketMeeting run(const Endpoint& root, bool may_come_first) {
    Door door = call_root(root, may_come_first);
    const Places places = hear_places();
    try {
      call_lower(places);
      hear_higher(door);
      hear_lower();
    } catch (const Error& error) {
      // The root's own words name the cause; this rank's failure may follow from it.
      tell_root(note(secret_.of_caller, Note::Type::failed, {error.code(), error.what()}));
      throw;
    }
    tell_root(note(secret_.of_caller, Note::Type::ready));
    if (hear_root().type != Note::Type::go)
      fail(mine_, {ErrorCode::bootstrap, "rank 0 answered out of turn"});
    return formed(std::move(sockets_), places, mine_.rank);
  }

 private:
  int root_socket() const { return sockets_[0].get(); }

  Door call_root(const Endpoint& root, bool may_come_first) {
    // Where rank 0 may come later, its port may be another program's, which closes the call.
    for (;;) {
      auto socket = connect_to(root, deadline_, may_come_first);
      if (!socket && deadline_.expired()) fail(mine_, expired());
      if (!socket)
        fail(mine_, {ErrorCode::bootstrap,
                     fmt::format("nothing listens at {}: rank 0 has given up or ended, or all "
                                 "ranks of this id have met already",
                                 to_text(root))});
      sockets_[0] = std::move(*socket);
      Hello hello = greet(secret_, mine_, {});
      UniqueFd listener;
      try {
        listener = open_door();
        hello.door = own_end(listener.get());
      } catch (const Error& error) {  // rank 0 waits for this rank, so it must say so
        hello.failure = failure_text(error.what());
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

  void hear_lower() {
    for (int rank = 1; rank < mine_.rank; ++rank) {
      Note heard;
      const Transfer result = receive_one(sockets_[index(rank)].get(), heard, deadline_);
      if (result != Transfer::done || heard.magic != hello_magic ||
          !equal(heard.proof, secret_.of_called))
        give_way(fmt::format("rank {} does not answer", rank));
    }
  }

  /// Throws the root's words if it says something in a moment, because it may know why this rank
  /// has no connection to another.
  [[noreturn]] void give_way(const std::string& why) {
    pollfd entry{root_socket(), POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(farewell.count())) > 0) hear_root();
    fail(mine_, {ErrorCode::bootstrap, why});
  }

  Secret secret_;
  const Arrival& mine_;
  Deadline deadline_;
  std::vector<GroupFd> sockets_;
};

}  // namespace

SocketMeeting meet_at(UniqueFd listener, const Secret& secret, const Arrival& mine) {
  return Root(std::move(listener), secret, mine).run();
}

SocketMeeting meet_with(const Endpoint& root, const Secret& secret, bool may_come_first,
                        const Arrival& mine) {
  return Member(secret, mine).run(root, may_come_first);
}

}  // namespace plait::detail
