// The two ends of a flow over TCP. Bytes go straight from the sender's buffer into a socket, and
// long messages from a socket straight into the receiver's. A flow and the one back may share their
// connections. Then TCP acknowledges a short message in the packet of the answer. Otherwise it
// sends a packet for every second message, which takes a sixth of the time of small all-reduces (2
// ranks on 2 nodes that are namespaces, AMD EPYC, 2026-11-26).
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bootstrap/socket/answer_watch.hpp"
#include "plait/error.hpp"
#include "transport/socket/flow_door.hpp"
#include "transport/socket/flow_thread.hpp"
#include "transport/socket/wire.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// A message that one end has in hand. Its address is the request.
struct FlowMessage {
  bool in_use = false;        // only the flow's user asks
  std::byte* data = nullptr;  // sent from, or the posted buffer
  std::size_t room = 0;       // of that buffer
  std::uint64_t number = 0;
  std::size_t bytes = 0;  // that have arrived
  /// Done if 0. The last change releases what the flow's thread has done with the message.
  std::atomic<std::size_t> stripes_left{0};
};
inline constexpr std::size_t most_messages = 64;

/// The messages of a flow. Its user posts them and takes them back. The thread that moves bytes,
/// the same one or another, goes through them in their order.
class FlowMessages {
 public:
  /// Null: there are `most_messages` under way.
  FlowMessage* post(std::byte* data, std::size_t bytes, std::size_t stripes);
  /// How many have been posted so far. Sees all of them.
  std::uint64_t posted() const noexcept { return posted_.load(std::memory_order_acquire); }
  FlowMessage& operator[](std::uint64_t number) { return messages_[number % most_messages]; }

 private:
  std::array<FlowMessage, most_messages> messages_;
  std::atomic<std::uint64_t> posted_{0};
};

/// Why a flow can't go on. Once it is broken, each call throws the same. One thread breaks it, and
/// any may ask.
class FlowState {
 public:
  /// `sockets`: for the other rank's address.
  explicit FlowState(const FlowSockets& sockets);
  void require_whole() const;
  bool is_broken() const noexcept { return is_broken_.load(std::memory_order_acquire); }
  /// 0: the other rank has closed the connection.
  [[noreturn]] void lose(int error);
  [[noreturn]] void break_off(ErrorCode code, const std::string& why);
  const std::string& peer() const { return peer_; }

 private:
  std::string peer_;
  std::optional<Error> error_;
  std::atomic<bool> is_broken_{false};  // then `error_` stays as it is
};

/// Whether a flow the other way has the same connections.
inline bool is_shared(const std::shared_ptr<FlowSockets>& sockets) {
  return sockets.use_count() > 1;
}

/// Host memory alone, and nothing to register. Throws Error(unsupported) for other memory.
std::unique_ptr<Registration> register_for_sockets(MemoryKind kind);

/// What both ends have: their connections, and the thread that moves their bytes, if the flow's
/// user does not.
class SocketFlow : public MovedFlow {
 protected:
  SocketFlow(std::shared_ptr<FlowSockets> sockets, std::shared_ptr<FlowThreads> threads);
  /// Its destructor must call this first.
  void stop_thread() noexcept;
  void start_thread(bool sends);
  bool has_thread() const noexcept { return thread_ != nullptr; }
  void wake() noexcept { thread_->wake(); }
  /// Whether all of a message has been moved. Throws if it never will be.
  bool is_complete(const FlowMessage& message) const;
  /// Notes that all of one more stripe has been moved.
  void count_stripe(FlowMessage& message);
  /// `move`, by way of a function that may throw.
  template <class Advance>
  Moved moved_by(Advance advance) noexcept;

  std::shared_ptr<FlowSockets> sockets_;
  FlowState state_;
  FlowMessages messages_;
  std::uint64_t bytes_moved_ = 0, messages_moved_ = 0;

 private:
  std::shared_ptr<FlowThreads> threads_;
  std::shared_ptr<FlowThread> thread_;
};

template <class Advance>
MovedFlow::Moved SocketFlow::moved_by(Advance advance) noexcept {
  if (state_.is_broken()) return Moved::nothing;
  const std::uint64_t bytes = bytes_moved_, messages = messages_moved_;
  try {
    advance();
  } catch (const Error&) {
    return Moved::news;  // the flow's user gets it from `state_`
  }
  if (messages_moved_ != messages) return Moved::news;
  return bytes_moved_ != bytes ? Moved::bytes : Moved::nothing;
}

class SocketSendFlow final : public SendFlow, private SocketFlow {
 public:
  /// `threads`: null, or those that may move large messages.
  SocketSendFlow(std::shared_ptr<FlowSockets> sockets, std::shared_ptr<FlowThreads> threads);
  ~SocketSendFlow() override { stop_thread(); }
  void expect_large() override { start_thread(true); }
  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind kind) override {
    return register_for_sockets(kind);
  }
  bool test(Request request, std::size_t* received) override;
  Request isend(const void* data, std::size_t bytes, Registration& memory) override;
  std::unique_ptr<ReceiveFlow> replies() override;
  bool is_safe() override;

 private:
  struct Outgoing {
    StripeHead head;
    const std::byte* data;
    std::size_t bytes;
    FlowMessage* message;
  };
  struct Connection {
    WatchedSocket* socket;
    std::deque<Outgoing> queue;
    std::size_t sent = 0;  // of the first stripe, its head included
    plait::detail::AnswerWatch watch;
  };
  Moved move() noexcept override;
  void advance();
  void enqueue(FlowMessage& message);
  void write(Connection& connection);
  /// Throws Error(rank_lost) if a connection without room is one to a machine that is gone.
  void require_answers(Connection& connection);
  void count_sent(Connection& connection, std::size_t bytes);

  std::vector<Connection> connections_;
  std::uint64_t enqueued_ = 0;  // messages
};

class SocketReceiveFlow final : public ReceiveFlow, private SocketFlow {
 public:
  /// `threads`: as above.
  SocketReceiveFlow(std::shared_ptr<FlowSockets> sockets, std::shared_ptr<FlowThreads> threads);
  ~SocketReceiveFlow() override { stop_thread(); }
  void expect_large() override { start_thread(false); }
  std::unique_ptr<Registration> register_memory(void*, std::size_t, MemoryKind kind) override {
    return register_for_sockets(kind);
  }
  bool test(Request request, std::size_t* received) override;
  Request irecv(void* data, std::size_t bytes, Registration& memory) override;
  std::unique_ptr<SendFlow> reply() override;

 private:
  struct Connection {
    WatchedSocket* socket;
    /// Bytes [first, last) that were read and not used: a short message comes with its head in one
    /// system call.
    std::array<std::byte, 4096> ahead;
    std::size_t first = 0, last = 0;
    FlowMessage* message = nullptr;  // the one whose stripe arrives
    std::byte* to = nullptr;
    std::size_t left = 0;
    /// Stripes that the first connection has announced and that are not complete here. Until there
    /// is one, a connection is not read, so an idle flow costs one system call per test.
    std::size_t announced = 0;
    std::optional<int> ended;  // with this error, or 0 if the other rank has closed it
    plait::detail::AnswerWatch watch;
  };
  Moved move() noexcept override;
  void advance();
  /// Makes `complete_` the number of the first message that is not complete. False: all are.
  bool find_incomplete();
  /// Throws Error(rank_lost) if a connection that the message needs has ended, or is one to a
  /// machine that is gone.
  void require_connections(std::uint64_t number);
  void read(std::size_t index);
  /// One system call. The number of bytes that were there, at most `bytes`; they go to `to`.
  std::size_t receive(Connection& connection, std::byte* to, std::size_t bytes);
  /// Reads ahead until there are so many unused bytes. False if there are not so many. `drained`:
  /// the socket is known to have no more; asked and told.
  bool read_ahead(Connection& connection, std::size_t bytes, bool& drained);
  /// True once the whole rest of the stripe is in its buffer.
  bool read_stripe(Connection& connection, bool& drained);
  FlowMessage& take_head(std::size_t index);
  FlowMessage& message_of(const StripeHead& head, std::size_t index);

  std::vector<Connection> connections_;
  std::uint64_t begun_ = 0;     // messages whose head has arrived
  std::uint64_t complete_ = 0;  // messages, all of them before the first incomplete one
};

}  // namespace plait::transport
