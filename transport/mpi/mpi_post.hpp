// The communicator of MPI transports, and the notes by which its ranks open and close flows.
#pragma once
#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "bootstrap/mpi/process.hpp"
#include "bootstrap/mpi/support.hpp"
#include "core/process.hpp"
#include "plait/error.hpp"
#include "transport/mpi/mpi_extensions.hpp"

namespace plait::transport {

/// Throws Error(rank_lost), or Error(bootstrap), with MPI's text unless `status` is MPI_SUCCESS.
/// `rank`: the other side.
inline void check_mpi(int status, const char* call, int rank) {
  if (status == MPI_SUCCESS) return;
  throw Error(is_process_lost(status) ? ErrorCode::rank_lost : ErrorCode::bootstrap,
              fmt::format("{}: rank {}: {}", call, rank, plait::detail::describe(status)));
}

/// A flow, as its sender knows it. The messages of a flow have a tag that no other flow between the
/// same two ranks ever gets.
struct SendEnd {
  int rank;  // the receiver
  int tag;
  enum class State : std::uint8_t { called, open, refused, left } state = State::called;
};

/// A flow, as its receiver knows it.
struct ReceiveEnd {
  static constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();
  int rank;  // the sender
  int tag;
  std::uint64_t messages = endless;  // that will have come when the sender has closed the flow
};

/// All transports on one communicator share its post: any of them reads the notes for all. Their
/// threads take turns. All methods but the first are for callers in `use`.
///
/// It lives until the process ends, because tags of earlier flows must not be used again.
class MpiPost {
 public:
  explicit MpiPost(MPI_Comm comm) : comm_(comm) {
    check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", 0);
    check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank", 0);
    check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size", 0);
    int* most = nullptr;
    int found = 0;
    check_mpi(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&most), &found),
              "MPI_Comm_get_attr", 0);
    last_tag_ = found != 0 ? *most : 32767;  // the least that the standard allows
  }
  MpiPost(const MpiPost&) = delete;
  MpiPost& operator=(const MpiPost&) = delete;
  /// The post of this communicator; the first call makes it.
  static MpiPost& of(MPI_Comm comm) {
    static std::mutex mutex;
    static auto* posts = new std::map<MPI_Comm, std::unique_ptr<MpiPost>>;  // never destroyed
    const std::scoped_lock lock(mutex);
    std::unique_ptr<MpiPost>& post = (*posts)[comm];
    if (post == nullptr) post = std::make_unique<MpiPost>(comm);
    return *post;
  }

  /// Runs `body` alone, and MPI does not end meanwhile. Throws Error(bootstrap) after MPI_Finalize
  /// and in a forked child: then MPI must not be called.
  template <class Body>
  auto use(const char* call, const Body& body) {
    require_here(call);  // first, because the child may have a copy of a lock that is held
    const std::scoped_lock lock(mutex_);
    require_open(call);
    return body();
  }
  /// For destructors. Does nothing where `use` would throw. If MPI fails, the other side sees it,
  /// too.
  template <class Body>
  void use_last(const Body& body) noexcept {
    try {
      use("", body);
    } catch (const std::exception&) {  // see above
    }
  }

  MPI_Comm comm() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  /// Lets notes go out, and reads those that have come. Never waits.
  void advance() {
    std::erase_if(outgoing_, [](const auto& message) { return message->is_finished(); });
    for (;;) {
      int found = 0;
      MPI_Message message = MPI_MESSAGE_NULL;
      MPI_Status status{};
      check_mpi(MPI_Improbe(MPI_ANY_SOURCE, note_tag, comm_, &found, &message, &status),
                "MPI_Improbe", rank_);
      if (found == 0) return;
      Note note{};
      // A note is small, so all of it has come.
      check_mpi(MPI_Mrecv(&note, sizeof note, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv",
                status.MPI_SOURCE);
      read(status.MPI_SOURCE, note);
    }
  }

  /// Calls that listener. `advance` changes the end's state once its rank has answered.
  std::shared_ptr<SendEnd> call(int rank, std::uint64_t listener) {
    int& tag = tags_.try_emplace(rank, note_tag).first->second;
    if (tag == last_tag_)
      throw Error(ErrorCode::bootstrap,
                  fmt::format("connect: rank {} has had {} flows from rank {}, and MPI has no more "
                              "tags",
                              rank, tag - note_tag, rank_));
    auto end = std::make_shared<SendEnd>(SendEnd{rank, ++tag});
    sends_[{rank, tag}] = end;
    send(rank, {Kind::call, tag, listener});
    return end;
  }
  /// `messages`: how many of the flow's are certain to be sent.
  void leave(const SendEnd& end, std::uint64_t messages) {
    const bool told = end.state == SendEnd::State::left || end.state == SendEnd::State::refused;
    sends_.erase({end.rank, end.tag});
    if (!told) send(end.rank, {Kind::sender_left, end.tag, messages});
  }
  void leave(const ReceiveEnd& end) {
    receives_.erase({end.rank, end.tag});
    if (end.messages == ReceiveEnd::endless) send(end.rank, {Kind::receiver_left, end.tag, 0});
  }

  void open_door(std::uint64_t listener) { doors_.try_emplace(listener); }
  void close_door(std::uint64_t listener) {
    const auto door = doors_.extract(listener);
    for (const auto& end : door.mapped()) leave(*end);
  }
  /// Leaves the notes that are on their way to MPI alone.
  void part_with_notes() {
    for (auto& message : outgoing_) plait::detail::abandon(std::move(message));
    outgoing_.clear();
  }
  /// The next flow that has been opened to the listener, or null.
  std::shared_ptr<ReceiveEnd> take(std::uint64_t listener) {
    auto& waiting = doors_.at(listener);
    if (waiting.empty()) return nullptr;
    auto end = std::move(waiting.front());
    waiting.pop_front();
    return end;
  }

 private:
  // The communicator may be that of an MpiLink, whose messages have tag 0. Flows have tags from 2.
  static constexpr int note_tag = 1;

  enum class Kind : std::uint32_t { call, accept, refuse, sender_left, receiver_left };
  struct Note {
    Kind kind;
    int tag;               // of the flow
    std::uint64_t number;  // of the listener, or of messages
  };
  struct Outgoing final : plait::detail::Flight {
    explicit Outgoing(const Note& sent) : note(sent) {}
    Note note;
  };
  using Key = std::pair<int, int>;  // the other rank and the tag

  void require_here(const char* call) const {
    if (!origin_.is_here())
      throw Error(ErrorCode::bootstrap,
                  fmt::format("{}: MPI belongs to the parent of this process", call));
  }
  void require_open(const char* call) const {
    if (!is_open_)
      throw Error(ErrorCode::bootstrap, fmt::format("{}: MPI is already finalised", call));
  }
  /// Transports end before their post does, because they were made after it.
  void close() {
    const std::scoped_lock lock(mutex_);
    part_with_notes();
    is_open_ = false;
  }
  void send(int rank, const Note& note) {
    auto message = std::make_unique<Outgoing>(note);
    message->requests.push_back(MPI_REQUEST_NULL);
    check_mpi(MPI_Isend(&message->note, sizeof note, MPI_BYTE, rank, note_tag, comm_,
                        &message->requests.front()),
              "MPI_Isend", rank);
    outgoing_.push_back(std::move(message));
  }
  void read(int from, const Note& note) {
    const Key key{from, note.tag};
    const auto sending = sends_.find(key);
    switch (note.kind) {
      case Kind::call: {
        const auto door = doors_.find(note.number);
        if (door == doors_.end()) return send(from, {Kind::refuse, note.tag, 0});
        const auto end = std::make_shared<ReceiveEnd>(ReceiveEnd{from, note.tag});
        receives_[key] = end;
        door->second.push_back(end);
        return send(from, {Kind::accept, note.tag, 0});
      }
      case Kind::accept:
        if (sending != sends_.end()) sending->second->state = SendEnd::State::open;
        return;
      case Kind::refuse:
        if (sending != sends_.end()) sending->second->state = SendEnd::State::refused;
        return;
      case Kind::receiver_left:
        if (sending != sends_.end()) sending->second->state = SendEnd::State::left;
        return;
      case Kind::sender_left: {
        const auto receiving = receives_.find(key);
        if (receiving != receives_.end()) receiving->second->messages = note.number;
        return;
      }
    }
  }

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, last_tag_ = 0;
  Origin origin_;
  std::mutex mutex_;
  bool is_open_ = true;
  std::list<std::unique_ptr<Outgoing>> outgoing_;
  std::map<int, int> tags_;  // the latest for each rank
  std::map<Key, std::shared_ptr<SendEnd>> sends_;
  std::map<Key, std::shared_ptr<ReceiveEnd>> receives_;
  std::map<std::uint64_t, std::deque<std::shared_ptr<ReceiveEnd>>> doors_;  // by the listener
  plait::detail::BeforeMpiEnds before_mpi_ends_{[this] { close(); }};
};

}  // namespace plait::transport
