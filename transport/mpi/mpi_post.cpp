#include "transport/mpi/mpi_post.hpp"

#include <fmt/format.h>

#include <utility>

#include "plait/error.hpp"
#include "transport/mpi/mpi_extensions.hpp"

namespace plait::transport {
namespace {

// The communicator may be that of an MpiLink, whose messages have tag 0. Flows have tags from 2.
constexpr int note_tag = 1;

}  // namespace

void check_mpi(int status, const char* call, int rank) {
  if (status == MPI_SUCCESS) return;
  throw Error(is_process_lost(status) ? ErrorCode::rank_lost : ErrorCode::bootstrap,
              fmt::format("{}: rank {}: {}", call, rank, plait::detail::describe(status)));
}

MpiPost::MpiPost(MPI_Comm comm) : comm_(comm) {
  check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler", 0);
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank", 0);
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size", 0);
  int* most = nullptr;
  int found = 0;
  check_mpi(MPI_Comm_get_attr(comm_, MPI_TAG_UB, static_cast<void*>(&most), &found),
            "MPI_Comm_get_attr", 0);
  last_tag_ = found != 0 ? *most : 32767;  // the least that the standard allows
}

MpiPost& MpiPost::of(MPI_Comm comm) {
  static std::mutex mutex;
  static auto* posts = new std::map<MPI_Comm, std::unique_ptr<MpiPost>>;  // never destroyed
  const std::scoped_lock lock(mutex);
  std::unique_ptr<MpiPost>& post = (*posts)[comm];
  if (post == nullptr) post = std::make_unique<MpiPost>(comm);
  return *post;
}

void MpiPost::require_here(const char* call) const {
  if (!origin_.is_here())
    throw Error(ErrorCode::bootstrap,
                fmt::format("{}: MPI belongs to the parent of this process", call));
}

void MpiPost::require_open(const char* call) const {
  if (!is_open_)
    throw Error(ErrorCode::bootstrap, fmt::format("{}: MPI is already finalised", call));
}

/// Transports end before their post does, because they were made after it.
void MpiPost::close() {
  const std::scoped_lock lock(mutex_);
  part_with_notes();
  is_open_ = false;
}

void MpiPost::part_with_notes() {
  for (auto& message : outgoing_) plait::detail::abandon(std::move(message));
  outgoing_.clear();
}

void MpiPost::advance() {
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

void MpiPost::send(int rank, const Note& note) {
  auto message = std::make_unique<Outgoing>(note);
  message->requests.push_back(MPI_REQUEST_NULL);
  check_mpi(MPI_Isend(&message->note, sizeof note, MPI_BYTE, rank, note_tag, comm_,
                      &message->requests.front()),
            "MPI_Isend", rank);
  outgoing_.push_back(std::move(message));
}

void MpiPost::read(int from, const Note& note) {
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

std::shared_ptr<SendEnd> MpiPost::call(int rank, std::uint64_t listener) {
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

void MpiPost::leave(const SendEnd& end, std::uint64_t messages) {
  const bool told = end.state == SendEnd::State::left || end.state == SendEnd::State::refused;
  sends_.erase({end.rank, end.tag});
  if (!told) send(end.rank, {Kind::sender_left, end.tag, messages});
}

void MpiPost::leave(const ReceiveEnd& end) {
  receives_.erase({end.rank, end.tag});
  if (end.messages == ReceiveEnd::endless) send(end.rank, {Kind::receiver_left, end.tag, 0});
}

void MpiPost::close_door(std::uint64_t listener) {
  const auto door = doors_.extract(listener);
  for (const auto& end : door.mapped()) leave(*end);
}

std::shared_ptr<ReceiveEnd> MpiPost::take(std::uint64_t listener) {
  auto& waiting = doors_.at(listener);
  if (waiting.empty()) return nullptr;
  auto end = std::move(waiting.front());
  waiting.pop_front();
  return end;
}

}  // namespace plait::transport
