// How bytes get from one node to another. A transport moves messages between registered buffers;
// the proxy thread of each rank (transport/proxy.hpp) is its only user. The shape is the one that
// the field has settled on: listen, connect and accept; register memory; isend, irecv and test.
//
// Three transports: sockets (transport/socket/), MPI (transport/mpi/, in libplait-mpi.so), and the
// network plug-ins that vendors write for NCCL (transport/plugin/).
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace plait::transport {

/// Where a rank listens. Ranks exchange it through their bootstrap; only the transport that made
/// it, on any node, can read it.
struct Address {
  std::array<std::byte, 128> bytes{};
};

/// Which memory a buffer lies in. Not every transport takes device memory.
enum class MemoryKind : std::uint8_t { host, cuda, hip };

/// A registered stretch of memory. Destroy it before the end of the flow that made it.
class Registration {
 public:
  virtual ~Registration() = default;
};

/// A message under way. Valid until `test` has returned true for it.
using Request = void*;

/// One end of a one-way flow between two ranks. Messages arrive in the order in which they
/// were sent, and each is received by one `irecv`, also in order.
///
/// Only one thread at a time uses a flow and the transport that made it. Every method may throw
/// Error(rank_lost) if the other rank's process or the link to it is gone, and Error(bootstrap) if
/// the transport fails; the flow is then broken and throws on each further call, but `test` still
/// tells of messages that were complete before. The destructor closes the flow and waits for
/// nothing: unfinished messages may be lost.
class Flow {
 public:
  virtual ~Flow() = default;
  /// Registers [data, data + bytes) for messages of this flow. Throws Error(unsupported) if the
  /// transport can't use that kind of memory.
  virtual std::unique_ptr<Registration> register_memory(void* data, std::size_t bytes,
                                                        MemoryKind kind) = 0;
  /// True once the message is sent (its buffer may be written) or received (its bytes are in the
  /// buffer, visible to the calling thread; those in device memory to kernels that acquire what
  /// this thread releases from then on). `received`, if not null, then gets the message's size.
  /// Never waits.
  virtual bool test(Request request, std::size_t* received = nullptr) = 0;
  /// From now on messages are large and may be many, so a transport may move them by another
  /// thread. Call it when no message is under way, and not if a flow goes back over the same
  /// connection. Throws Error(bootstrap) if the system refuses.
  virtual void expect_large() {}
};

class ReceiveFlow;

class SendFlow : public Flow {
 public:
  /// Starts to send a message. The buffer must lie in `memory` and stay as it is until the request
  /// is done. Null: the flow takes no more messages now, so call again later. Never waits.
  virtual Request isend(const void* data, std::size_t bytes, Registration& memory) = 0;
  /// The flow that comes back over the same connection, from `ReceiveFlow::reply`; once per flow.
  /// Null: this transport's connections go one way. The connection ends with both flows.
  virtual std::unique_ptr<ReceiveFlow> replies();
  /// False while the end of the connection may still take away messages that `test` calls sent.
  virtual bool is_safe() { return true; }
};

class ReceiveFlow : public Flow {
 public:
  /// Posts a buffer for the next message that has none yet. The message may be shorter than
  /// `bytes`; a longer one is Error(bootstrap). Null: the flow takes no more buffers now. May be
  /// Error(rank_lost) while messages that came before lie in buffers posted earlier. Never waits.
  virtual Request irecv(void* data, std::size_t bytes, Registration& memory) = 0;
  /// A flow back to the sender over the same connection, which it has from `SendFlow::replies`;
  /// once per flow. Null: this transport's connections go one way.
  virtual std::unique_ptr<SendFlow> reply() { return nullptr; }
};

inline std::unique_ptr<ReceiveFlow> SendFlow::replies() { return nullptr; }

/// What a connection is for. `both`: short messages there and back, if the transport can.
enum class Ways : std::uint8_t { one, both };

/// Where other ranks' connections arrive.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual Address address() const = 0;
  /// The next flow that a rank has connected, or null if none has arrived yet. Never waits. Flows
  /// arrive in any order, so ranks say who they are in a first message.
  virtual std::unique_ptr<ReceiveFlow> accept() = 0;
};

/// What a transport can do.
struct Properties {
  std::string name;            // "sockets over eth0 (10.0.0.1)", for messages and plait-info
  bool device_memory = false;  // flows can register memory of GPUs
  std::size_t largest_message = ~std::size_t{0};
  /// Bytes per microsecond and microseconds, as far as the transport knows its network; 0: unknown.
  double bandwidth = 0, latency = 0;
};

/// How long a transport may sleep that can't tell when a message has arrived. The proxy asks for
/// long sleeps only after a long silence, so this delays the first message after that. Over MPI, an
/// idle rank took 8 % of a core with 50 us, 5 % with 500 us and 1.6 % with this; over sockets 1 %
/// (host target, 2 ranks on a loaded AMD EPYC, 2026-11-25).
inline constexpr std::chrono::microseconds longest_blind_wait{2000};

/// Belongs to the process that made it: in a child made by fork the objects must not be used, and
/// their destructors do nothing.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual const Properties& properties() const = 0;
  virtual std::unique_ptr<Listener> listen() = 0;
  /// Connects to a listener of another rank; the result is complete once it is not null. Call it
  /// again with the same arguments until then; at most one connection for these is under way at a
  /// time. Never waits. Throws Error(rank_lost) if nothing listens there.
  virtual std::unique_ptr<SendFlow> connect(const Address& address, Ways ways = Ways::one) = 0;
  /// The place where a connection that `connect` has begun gets no answer, not even from the
  /// system, and what may help. Empty: no such connection, or it has only just begun, or the
  /// transport can't tell.
  virtual std::string unanswered(const Address&) const { return {}; }
  /// Gives up a connection that `connect` has not returned yet. No effect if there is none.
  virtual void give_up(const Address&, Ways) {}
  /// Sleeps until a message may have arrived or left, until `wake`, or until `timeout` is over. May
  /// return early. A transport that can't tell sleeps for at most `longest_blind_wait`.
  virtual void wait(std::chrono::microseconds timeout) = 0;
  /// Ends a `wait`, also one that begins later. From any thread.
  virtual void wake() noexcept = 0;
  /// For a medium that may end before the transport, as MPI does in MPI_Finalize: `end` is called
  /// before that, by the thread that ends it, while messages still move. Later calls of the
  /// transport and its flows throw Error(bootstrap), except `wait`, which sleeps. An empty function
  /// takes `end` away; then it does not run any more. From any thread, but not from `end`.
  virtual void set_end(std::function<void()> end) { end = nullptr; }  // most media never end
};

}  // namespace plait::transport
