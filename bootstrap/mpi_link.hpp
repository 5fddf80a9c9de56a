// Point-to-point messages between processes, for all of their bootstraps.
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/process_state.hpp"
#include "bootstrap/support.hpp"

namespace plait::detail {

/// The beginning of every message.
struct MessageHead {
  enum class Type : std::uint32_t {
    call,     // the sender's part in a call, with its data
    expired,  // the sender's time in this call is over, but it still listens for a moment
    failed,   // the sender has given up for good, for the reason in the text that follows
    left,     // the sender's object is destroyed; its last message
  };
  std::uint64_t context = 0;   // the group that the message belongs to
  std::uint64_t sequence = 0;  // of its calls
  Type type = Type::call;
  CallId call;
};

struct Message {
  MessageHead head;
  std::vector<std::byte> data;
};

/// A communicator of the library, over which groups of its ranks send each other messages. Each
/// group has a number, its context. Any thread that waits receives for all groups. So no call here
/// waits for another rank, no request is ever posted that a lost rank would have to match, and a
/// group costs MPI nothing.
///
/// A link is never freed, because freeing is collective and messages may come as long as the
/// processes live: the last messages of a group say that ranks leave it, and no rank waits for
/// those.
class Link {
 public:
  /// Takes `comm` over. `number` is equal on all of its ranks, and no other link has it.
  /// `processes`: the PID of each rank, or 0 where it means nothing here.
  Link(MPI_Comm comm, std::uint64_t number, std::vector<int> processes);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  std::uint64_t number() const noexcept { return number_; }
  /// True if the rank's process is known to have ended or to be stopped.
  bool is_out(int rank) const { return is_out_of_action(process(rank)); }
  /// The rank's PID, or 0 if it is not known here.
  int process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  /// The ranks of `comm` by their numbers in this link. None unless it has them all. Local.
  std::optional<std::vector<int>> ranks_of(MPI_Comm comm) const;

  /// Starts to send a copy of the data. Returns a number for `is_sent`.
  std::uint64_t send(int to, const MessageHead& head, std::span<const std::byte> data);
  bool is_sent(std::uint64_t message);
  /// Sends and receives as much as it can without waiting. Throws Error(bootstrap) if MPI fails.
  void advance();
  /// True if all messages are sent.
  bool is_idle();

  /// The head of the next message from `from` in this context. The message stays until it is taken.
  std::optional<MessageHead> next(std::uint64_t context, int from);
  Message take(std::uint64_t context, int from);
  /// Why `from` has failed in its call `sequence` or before, if it has. Also looks behind the next
  /// message.
  std::optional<std::string> find_failure(std::uint64_t context, int from, std::uint64_t sequence);
  /// From now on, drops the messages of this context. The group's other ranks, `ranks`, may still
  /// send some until they leave.
  void close(std::uint64_t context, const std::vector<int>& ranks);

 private:
  struct Outgoing {
    std::uint64_t number;
    std::vector<std::byte> bytes;
    MPI_Request request;
  };
  struct Incoming {
    std::vector<std::byte> bytes;
    MPI_Request request;
    bool done;
  };
  using Inbox = std::map<int, std::deque<Message>>;  // by sender

  void route(int from, const std::vector<std::byte>& bytes);
  void receive();

  MPI_Comm comm_;
  std::uint64_t number_;
  std::vector<int> processes_;
  std::mutex mutex_;  // never held during a wait
  std::uint64_t sends_ = 0;
  std::deque<Outgoing> outgoing_;
  std::map<int, std::deque<Incoming>> incoming_;  // in the order in which they were sent
  std::map<std::uint64_t, Inbox> inboxes_;        // by context, also contexts not known here yet
  std::map<std::uint64_t, int> closed_;  // contexts, and how many of their ranks have not left
};

/// The links of this process.
class Links {
 public:
  static Links& instance();
  /// Takes ownership of the link.
  Link& add(std::unique_ptr<Link> link);
  Link* find(std::uint64_t number);
  /// The numbers of the oldest links that have all ranks of `comm`, at most `most`.
  std::vector<std::uint64_t> covering(MPI_Comm comm, std::size_t most);
  /// The PIDs of the ranks of `comm`, as a link that has them all knows them. Empty if there is no
  /// such link.
  std::vector<int> processes_of(MPI_Comm comm);
  /// Lets messages go out for a moment. True if all have gone.
  bool flush();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace plait::detail
