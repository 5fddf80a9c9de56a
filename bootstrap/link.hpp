// Point-to-point messages between ranks, for all groups that the ranks form.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bootstrap/process_state.hpp"
#include "bootstrap/support.hpp"
#include "plait/error.hpp"

namespace plait::detail {

/// The beginning of every message.
struct MessageHead {
  enum class Type : std::uint32_t {
    call,     // the sender's part in a call, with its data
    expired,  // the sender's time in this call is over, but it still listens for a moment
    failed,   // the sender has given up for good: an `ErrorCode` and a text follow
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

/// No message has more data.
inline constexpr std::size_t largest_message = std::size_t{64} << 20;

/// Ranks that can send each other messages. Several groups of these ranks share a link; each group
/// has a number, its context. Any thread that waits receives for all groups. So no call here waits
/// for another rank, and a group costs the link nothing.
///
/// Derived classes move the bytes: MpiLink over MPI, SocketLink over sockets, ThreadLink within a
/// process.
class Link {
 public:
  Link() = default;
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Starts to send a copy of the data. Returns a number for `is_sent`.
  virtual std::uint64_t send(int to, const MessageHead& head, std::span<const std::byte> data) = 0;
  virtual bool is_sent(std::uint64_t message) = 0;
  /// Sends and receives as much as it can without waiting. Throws Error(bootstrap) if the medium
  /// fails.
  virtual void advance() = 0;
  /// The rank's PID, or 0 if it is not known here.
  virtual int process(int rank) const = 0;
  /// True if it is known that no more messages will come from the rank's process.
  virtual bool has_ended(int rank) const { return detail::has_ended(process(rank)); }
  /// True if the rank's process is known to have ended or to be stopped.
  bool is_out(int rank) const { return is_out_of_action(process(rank)) || has_ended(rank); }

  /// False once the medium is unusable. For example, MPI after MPI_Finalize.
  virtual bool is_open() const { return true; }
  /// A group's object on this link begins and ends.
  virtual void opened(Bootstrap&) {}
  virtual void closed(Bootstrap&) noexcept {}
  /// A rank will never come.
  virtual void lose_rank() noexcept {}

  /// The data of a message that the sender has failed.
  static std::vector<std::byte> pack_failure(ErrorCode code, std::string_view why);

  /// The head of the next message from `from` in this context. The message stays until it is taken.
  std::optional<MessageHead> next(std::uint64_t context, int from);
  Message take(std::uint64_t context, int from);
  /// Why `from` has failed in its call `sequence` or before, if it has. Also looks behind the next
  /// message.
  std::optional<Error> find_failure(std::uint64_t context, int from, std::uint64_t sequence);
  /// From now on, drops the messages of this context. The group's other ranks, `ranks`, may still
  /// send some until they leave.
  void close(std::uint64_t context, const std::vector<int>& ranks);

 protected:
  /// The bytes of a message, as `route` takes them.
  static std::vector<std::byte> packed(const MessageHead& head, std::span<const std::byte> data);
  /// Puts a message into its group's inbox. The caller holds `mutex_`.
  void route(int from, std::span<const std::byte> bytes);

  mutable std::mutex mutex_;  // never held during a wait

 private:
  using Inbox = std::map<int, std::deque<Message>>;  // by sender

  std::map<std::uint64_t, Inbox> inboxes_;  // by context, also contexts not known here yet
  std::map<std::uint64_t, int> closed_;     // contexts, and how many of their ranks have not left
};

}  // namespace plait::detail
