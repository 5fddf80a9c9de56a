// Point-to-point messages between processes, for all bootstraps that they have.
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

/// Begins every message.
struct MessageHead {
  enum class Type : std::uint32_t {
    call,     // the sender's part in a call, with its data
    expired,  // the sender has waited for as long as it may in this call, and still listens for a
              // moment
    failed,   // the sender has given up, for good; why is the text that follows
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

/// A communicator of the library's own, over which groups of its ranks send each other messages.
/// Each group has a number, its context. One thread receives for all groups: whichever is waiting.
/// So nothing is ever posted that a lost rank would have to match, and a group costs MPI nothing:
/// no call here waits for another rank.
///
/// A link is never freed, as freeing is collective, and messages may come as long as the processes
/// live: a group's last ones say that ranks leave it, and nobody waits for those.
class Link {
 public:
  /// Takes `comm` over. `number` is equal on its ranks, and no other link's. `processes`: of the
  /// ranks, 0 where numbers mean nothing here.
  Link(MPI_Comm comm, std::uint64_t number, std::vector<int> processes);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  std::uint64_t number() const noexcept { return number_; }
  /// Whether the rank's process has ended or is stopped, as far as that can be known.
  bool is_out(int rank) const { return is_out_of_action(process(rank)); }
  /// 0: not known here.
  int process(int rank) const { return processes_[static_cast<std::size_t>(rank)]; }
  /// The ranks of the link that the ranks of `comm` are; none unless it has them all. Local.
  std::optional<std::vector<int>> ranks_of(MPI_Comm comm) const;

  /// Starts to send. The data are copied. The result: a number for `is_sent`.
  std::uint64_t send(int to, const MessageHead& head, std::span<const std::byte> data);
  bool is_sent(std::uint64_t message);
  /// Sends and receives what can be. Throws Error(bootstrap) if MPI fails.
  void advance();
  /// Whether all is sent that was to be.
  bool is_idle();

  /// The next message of `from` in this context; it stays until it is taken.
  std::optional<MessageHead> next(std::uint64_t context, int from);
  Message take(std::uint64_t context, int from);
  /// Why `from` has failed in its call `sequence` or before, if it has, even if other messages are
  /// before that.
  std::optional<std::string> find_failure(std::uint64_t context, int from, std::uint64_t sequence);
  /// No more messages of this context are wanted, which the group's other ranks, `ranks`, may still
  /// send until they leave.
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
  std::mutex mutex_;  // never held while something is waited for
  std::uint64_t sends_ = 0;
  std::deque<Outgoing> outgoing_;
  std::map<int, std::deque<Incoming>> incoming_;  // in the order in which they were sent
  std::map<std::uint64_t, Inbox>
      inboxes_;  // by context; also of those that this rank does not know yet
  std::map<std::uint64_t, int> closed_;  // contexts, and how many of their ranks have not left
};

/// Those of this process.
class Links {
 public:
  static Links& instance();
  /// Takes the link in.
  Link& add(std::unique_ptr<Link> link);
  Link* find(std::uint64_t number);
  /// The numbers of the oldest links that have all ranks of `comm`, at most `most`.
  std::vector<std::uint64_t> covering(MPI_Comm comm, std::size_t most);
  /// The processes of the ranks of `comm`, as a link that has them all knows them; nothing if there
  /// is none.
  std::vector<int> processes_of(MPI_Comm comm);
  /// Lets messages go out, for a moment. Whether all have.
  bool flush();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Link>> links_;
};

}  // namespace plait::detail
