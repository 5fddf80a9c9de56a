// The communicator of an MPI transport, and the notes by which its ranks open and close flows.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "bootstrap/mpi/support.hpp"
#include "core/process.hpp"

namespace plait::transport {

/// Throws Error(rank_lost), or Error(bootstrap), with MPI's text unless `status` is MPI_SUCCESS.
/// `rank`: the other side.
void check_mpi(int status, const char* call, int rank);

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

class MpiPost {
 public:
  explicit MpiPost(MPI_Comm comm);
  ~MpiPost();
  MpiPost(const MpiPost&) = delete;
  MpiPost& operator=(const MpiPost&) = delete;

  MPI_Comm comm() const noexcept { return comm_; }
  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  /// False in a forked child and after MPI_Finalize: then MPI must not be called.
  bool is_open() const { return origin_.is_here() && !plait::detail::is_finalized(); }
  /// Throws Error(bootstrap) unless `is_open`.
  void require_open(const char* call) const;

  /// Lets notes go out, and reads those that have come. Never waits.
  void advance();

  /// Calls that listener. `advance` changes the end's state once its rank has answered.
  std::shared_ptr<SendEnd> call(int rank, std::uint64_t listener);
  /// `messages`: how many of the flow's are certain to be sent.
  void leave(const SendEnd& end, std::uint64_t messages);
  void leave(const ReceiveEnd& end);

  void open_door(std::uint64_t listener) { doors_.try_emplace(listener); }
  void close_door(std::uint64_t listener);
  /// The next flow that has been opened to the listener, or null.
  std::shared_ptr<ReceiveEnd> take(std::uint64_t listener);

 private:
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

  void send(int rank, const Note& note);
  void read(int from, const Note& note);

  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, last_tag_ = 0;
  Origin origin_;
  std::list<std::unique_ptr<Outgoing>> outgoing_;
  std::map<int, int> tags_;  // the latest for each rank
  std::map<Key, std::shared_ptr<SendEnd>> sends_;
  std::map<Key, std::shared_ptr<ReceiveEnd>> receives_;
  std::map<std::uint64_t, std::deque<std::shared_ptr<ReceiveEnd>>> doors_;  // by the listener
};

}  // namespace plait::transport
