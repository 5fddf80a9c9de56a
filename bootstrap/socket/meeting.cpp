// The steps, which need no thread and no second round of calls:
//
// 1. Rank 0 listens at the address in the id. Every other rank opens a door of its own, calls rank
//    0, and says who it is and where its door is (Hello).
// 2. When all have called, rank 0 sends each of them the places of all (Note::welcome).
// 3. Each rank calls those with lower numbers at their doors, rank 0 excepted, and hears those with
//    higher numbers at its own. All doors are open before step 2, so no call is refused, and no
//    rank waits for an answer before it has made all its calls.
// 4. Each rank tells rank 0 that it is ready, and rank 0 tells all to go. The answers to its calls
//    were given before the others were ready, so it reads them now, and waits for none.
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
#include <utility>

#include "bootstrap/process_state.hpp"
#include "core/process_space.hpp"
#include "core/text.hpp"

namespace plait::detail {

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
          .failure = as_text<FailureText>(mine.failure)};
}

namespace meeting {

void fail(const Arrival& mine, const Objection& why) {
  throw Error(why.code, fmt::format("{}: {}", mine.call, as_said_by(mine.rank, why.text)));
}

Note note(const Secret::Half& proof, Note::Type type, const Objection& why) {
  return {.magic = hello_magic,
          .proof = proof,
          .type = type,
          .code = why.code,
          .text = as_text<FailureText>(why.text)};
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

}  // namespace meeting

namespace {

using namespace meeting;

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
    if (!mine.failure.empty()) object({mine.failure_code, as_said_by(0, mine.failure)});
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
      object({heard.code, as_said_by(rank, text_of(heard.text))});
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
    if (hello.rank < 0 || hello.rank >= mine_.size)
      return refuse(ErrorCode::mismatch,
                    fmt::format("rank {} called, but there are {} ranks", hello.rank, mine_.size));
    if (has_come(hello.rank))
      return refuse(ErrorCode::mismatch, fmt::format("two ranks passed rank {}", hello.rank));
    const std::string failure = text_of(hello.failure);
    if (!failure.empty()) object({ErrorCode::invalid_argument, as_said_by(hello.rank, failure)});
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

}  // namespace

SocketMeeting meet_at(UniqueFd listener, const Secret& secret, const Arrival& mine) {
  return Root(std::move(listener), secret, mine).run();
}

}  // namespace plait::detail
