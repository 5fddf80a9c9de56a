// The thread that carries a rank's channels to ranks of other nodes.
//
// On one node a sender stores chunks into the receiver's memory and raises the counter `published`
// there (algorithms/blocks/channels/channel.hpp). Between nodes it stores into a stand-in for that
// memory, on its own node, and raises the counter in it. The sender's proxy sees that, and sends
// the chunk; the receiver's proxy puts it into the receiver's memory, at the same place, and raises
// the counter there. Credits (`consumed`) go the other way in the same manner. So a kernel does not
// know where its peer is, and a replayed graph needs no work of the host.
//
// Why this is right. A counter has one writer on each side: a kernel in the stand-in, a proxy in
// the receiver's memory. The proxy acquires the counter that the kernel released, so it sees the
// chunk and its note. It releases the counter in the receiver's memory after the chunk is complete.
// Chunks of one channel are announced in their order. The receiver's slot is free, because the
// sender's kernel has waited for its credit, which the receiver's kernel gave after it emptied the
// slot; and the sender fills the slot in the stand-in again only after the same credit, when the
// chunk has long left it. A counter may rise by several chunks between two looks of the proxy: each
// chunk has its note, and there are as many notes as slots at most.
//
// Where the transport reaches device memory (GPUDirect), a call with large chunks has its slots
// there. The network card reads and writes them, and the proxy never does; counters and notes stay
// in memory of the host. The kernel releases `published` at system scope, so its stores to the slot
// come first for everything on the bus, and so for the card, which gets its order from the proxy
// after that. At the receiver a message in device memory is done only once kernels can see it
// (`Flow::test`), and the counter is raised after that. The two kinds of slots share the channel's
// counters. They may follow one another, as calls with other slots may, and notes say which it is.
//
// Most ranks of a large machine never talk to most others. So a rank is a `Peer`, with buffers and
// connections, from its first chunk, word or connection on. Before, a round looks at the channels
// to a few such ranks only, in turns, and at all of them before the thread sleeps.
//
// The proxy remembers each counter that it has seen, so it reads a line of memory that a kernel
// writes, and writes one that a kernel polls, only when there may be news (`Counters`).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backends/device/channel_words.hpp"
#include "plait/error.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// The channels between this rank and one of another node: memory of this node.
struct Lane {
  int peer = 0;
  const Address* address = nullptr;  // where its proxy listens
  unsigned channels = 0;             // each way
  std::size_t channel_bytes = 0;
  // To the peer, written by kernels: slots, signals and notes.
  std::byte* outgoing = nullptr;
  ChannelSignals* out_signals = nullptr;
  const ChunkNote* notes = nullptr;
  // From the peer, read by kernels.
  std::byte* incoming = nullptr;
  ChannelSignals* in_signals = nullptr;
  // The slots in device memory, which no proxy reads or writes itself; null without. Chunks lie
  // there if their notes say so (`ChunkNote::on_device`), and are messages whatever their size.
  std::byte *device_outgoing = nullptr, *device_incoming = nullptr;
  MemoryKind device_kind = MemoryKind::host;
  /// Frames and chunks carry checksums. Both ends agree, and there are no slots in device memory.
  bool is_checked = false;
  std::uint32_t counters_begin = 0;  // what all counters are
};

// For the counters of a lane, which kernels read and write at the same time.
inline std::uint32_t acquired(std::uint32_t& word) {
  return std::atomic_ref(word).load(std::memory_order_acquire);
}
inline void release(std::uint32_t& word, std::uint32_t value) {
  std::atomic_ref(word).store(value, std::memory_order_release);
}

/// Callbacks for the layer above. The thread that does the proxy's work calls `hear`, `lose` and
/// `serve`, one at a time: the proxy's own, or one in `carry` or `flush`.
struct Listening {
  /// Words that the peer's `tell` has sent.
  std::function<void(int peer, std::span<const std::byte>)> hear;
  /// The peer's process or the link to it is gone. Called once per peer.
  std::function<void(int peer, const Error& why)> lose;
  /// As Transport::unanswered, whenever that changes. From the thread that calls `hear`.
  std::function<void(int peer, const std::string& why)> unanswered = {};
  /// The transport is about to end before the proxy. Last words may be told. From the thread that
  /// ends it.
  std::function<void()> end = {};
  /// The proxy's thread has begun.
  std::function<void()> begin = {};
  /// A rank has become a peer.
  std::function<void(const Lane& lane)> meet = {};
  /// Plays the part of a kernel in channels that no kernel here reads. Once per round, after what
  /// has come. True if anything moved, or is about to: then the next round follows at once.
  std::function<bool()> serve = {};
};

/// What the proxy has done since it began.
struct Counters {
  std::uint64_t bytes_sent = 0;  // of chunks
  std::uint64_t chunks_sent = 0, frames_sent = 0;
  std::uint64_t rounds = 0;  // looks at all counters
  std::uint64_t sleeps = 0;
};

/// The peers that words are for: any, or only one to which a flow is open.
enum class Reach { all, known };

class Arrivals;
class Peer;

class Proxy {
 public:
  /// `rank`: this rank's number in the group. Local. If the transport ends first, as that over MPI
  /// may in MPI_Finalize, the proxy stops before that.
  Proxy(std::unique_ptr<Transport> transport, int rank);
  /// Sends what kernels have published, says goodbye to the peers, and ends. Waits until the
  /// transport has taken all that, at most `patience`.
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  Address address() const { return listener_->address(); }
  const Properties& properties() const { return transport_->properties(); }
  /// False once the transport has ended.
  bool is_open() const noexcept { return !has_ended_; }
  /// The lane to a rank; none if it is on this node. Always the same.
  using LaneTo = std::function<std::optional<Lane>(int peer)>;
  /// Begins to serve the lanes to `ranks` ranks. Flows are opened when the first message needs
  /// them. What lanes point to lives until `stop` has returned.
  void start(int ranks, LaneTo lane_to, Listening listening);
  void stop(std::chrono::milliseconds patience) noexcept;

  /// A kernel that may publish chunks has been enqueued. From any thread. Takes a lock only if the
  /// proxy's thread sleeps or rests.
  void wake() noexcept;
  /// Does a round of the proxy's work in the calling thread, if no other thread is at it. A kernel
  /// on the host calls it again and again while it waits for `peer`, so that nothing waits for the
  /// proxy's thread to get a core; and with -1 when it ends. Never waits.
  void carry(int peer) noexcept;
  /// From now on kernels may publish chunks without a `wake`: they are in captured graphs. The
  /// proxy never sleeps for long then.
  void stay_awake() noexcept { captured_ = true; }
  /// Sends the words to the peer, at most `frame_bytes` / 2 bytes. From any thread, after `start`.
  /// Throws Error(invalid_argument) for more bytes, and for a rank without a lane.
  void tell(int peer, std::span<const std::byte> words);
  /// Sends them to all of these peers.
  void tell_all(std::span<const std::byte> words, Reach reach);
  /// Waits until the transport has taken all words, and all chunks that kernels have published, and
  /// the end of this process takes away none of the words; at most `patience`. From any thread.
  void flush(std::chrono::milliseconds patience) noexcept;
  /// As they were when the proxy last went to sleep.
  Counters counters() const;

 private:
  void run() noexcept;
  bool serve();
  void rest();
  void end_rest() noexcept;
  struct Work;
  static const Work everything, usual, before_sleep;
  bool round(const Work& work);
  bool advance(const Work& work);
  void hand_out();
  /// Null: no peer yet, or on this node.
  Peer* find(int rank) const noexcept;
  /// The rank of this lane is a peer from now on.
  Peer& meet(const Lane& lane);
  bool look_for_news(std::size_t ranks);
  bool any_peer(bool (Peer::*holds)() const) const;
  bool all_peers(bool (Peer::*hold)() const) const;
  void accept_flows();
  void sleep(std::chrono::steady_clock::time_point quiet_since);
  void lose(Peer& peer, const Error& why);
  void lose_all(const Error& why);

  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Listener> listener_;
  int rank_;
  Listening listening_;
  LaneTo lane_to_;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Peer*> peer_of_;  // by rank; null: none yet
  std::vector<bool> is_unmet_;  // by rank: has a lane, and is no peer yet
  std::size_t unmet_ = 0, next_look_ = 0;
  std::unique_ptr<Arrivals> arrivals_;

  mutable std::mutex mutex_;  // of `told_` and `published_`
  struct Told {
    std::optional<int> peer;  // none: all that `reach` says
    std::vector<std::byte> words;
    Reach reach;
  };
  void keep(Told told);
  std::vector<Told> told_;
  std::atomic<bool> has_told_ = false, captured_ = false, ending_ = false, woken_ = false,
                    sleeping_ = false, has_ended_ = false;
  std::mutex stopping_;
  /// Held by the thread that works: the proxy's own, also while it sleeps, or one in `carry`.
  std::mutex working_;
  std::atomic<bool> is_wanted_ = false;       // by `carry`
  std::atomic<std::int64_t> carried_at_ = 0;  // on the steady clock
  unsigned carried_ = 0;                      // calls of `carry` that had the work
  std::mutex resting_;
  std::condition_variable rested_;
  std::atomic<bool> is_resting_ = false, must_work_ = false;
  bool says_farewell_ = false, has_lost_all_ = false;
  std::chrono::steady_clock::time_point quiet_since_{};
  std::chrono::steady_clock::time_point end_by_;
  std::chrono::steady_clock::time_point next_accept_{};
  Counters counters_, published_;  // the thread's, and those that others see
  std::thread thread_;
};

}  // namespace plait::transport
