// The communicator of MPI transports, and the notes by which its ranks open and close flows.
#pragma once
#include <mpi.h>

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "bootstrap/mpi/process.hpp"
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

/// All transports on one communicator share its post: any of them reads the notes for all. Their
/// threads take turns. All methods but the first are for callers in `use`.
///
/// It lives until the process ends, because tags of earlier flows must not be used again.
class MpiPost {
 public:
  explicit MpiPost(MPI_Comm comm);
  MpiPost(const MpiPost&) = delete;
  MpiPost& operator=(const MpiPost&) = delete;
  /// The post of this communicator; the first call makes it.
  static MpiPost& of(MPI_Comm comm);

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
  void advance();

  /// Calls that listener. `advance` changes the end's state once its rank has answered.
  std::shared_ptr<SendEnd> call(int rank, std::uint64_t listener);
  /// `messages`: how many of the flow's are certain to be sent.
  void leave(const SendEnd& end, std::uint64_t messages);
  void leave(const ReceiveEnd& end);

  void open_door(std::uint64_t listener) { doors_.try_emplace(listener); }
  void close_door(std::uint64_t listener);
  /// Leaves the notes that are on their way to MPI alone.
  void part_with_notes();
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

  void require_here(const char* call) const;
  void require_open(const char* call) const;
  void close();
  void send(int rank, const Note& note);
  void read(int from, const Note& note);

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
