// One peer of a proxy: the flows to and from it, and what is under way on them.
//
// Frames of two ranks go both ways over one connection, if the transport can. The rank that first
// has something to send makes it, and the other one answers over it. If both have made one, that of
// the smaller rank stays: the larger rank ends its own with the entry `moved`, and its answers
// begin with a hello that says that they come after that entry. So frames keep their order, and no
// rank waits for another. Chunks that travel alone have a flow each way. peer_farewell.cpp says who
// closes which connection and when, and proves that nothing is lost by it.
//
// Credits that may wait (`ChunkNote::credit_may_wait`). Small calls would send as many frames for
// credits as for chunks. So `carry` leaves such credits to the next frame to that peer. In a loop
// of such calls, it has the chunk after which the peer's kernel needs them. In a call of another
// algorithm the peer's kernel may wait for them at once. It never waits for ever, because a credit
// that waits is sent
// - by each round of the proxy's own thread, which holds none back. That thread works where no
//   kernel calls `carry`: with GPUs always, and on the host from a millisecond after the last one.
// - by one `carry` of four while a kernel here waits for that peer. A kernel that lacks a credit
//   has a chunk for this rank, so a kernel of the same call here comes to wait for it.
// - by one `carry` of four or sixteen for any other rank, once the credit has waited for
//   `most_held`. The kernel here may wait for other ranks first, which in turn wait for that peer.
// A kernel that waits calls `carry` again and again. So either it does, or the proxy's own thread
// works, and both send the credit.
//
// Credits in bulk (`ChunkNote::credit_in_bulk`) wait for a frame to that peer, too, or until there
// are `ChunkNote::bulk` in the channel, or for `most_held`; the proxy's own thread, which may
// sleep, sends them in its next round then. The sender waits for one only if its chunks fill all
// slots, at least twice as many as `bulk`. Once the kernels here have emptied half of these, their
// credits are sent. So no rank waits for ever, and none waits for the time either, but where
// counters wrap.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/frame.hpp"
#include "transport/proxy.hpp"
#include "transport/transport.hpp"

namespace plait::transport {

/// The first message of a flow between proxies.
struct PeerHello {
  std::int32_t rank = -1;
  /// `later_frames`: those after `moved`.
  enum class Use : std::uint32_t { frames, data, later_frames } use = Use::frames;
};

/// A flow to this rank whose first message, which says whose it is, may not have come yet.
struct Arrival {
  explicit Arrival(std::unique_ptr<ReceiveFlow> from);
  /// True once it has come. Throws what flows throw.
  bool has_said_hello();

  std::unique_ptr<ReceiveFlow> flow;
  PeerHello hello;
  std::unique_ptr<Registration> memory;
  Request request = nullptr;
  bool has_come = false;
};

class Peer;

/// Flows to this rank that have not been given to their peers yet.
class Arrivals {
 public:
  /// Accepts all that the listener has, and gives those that have said whose they are to their
  /// peers. `find`: the peer of a number, or null. `rank`: this one, for the log.
  void take_all(Listener& listener, int rank, const std::function<Peer*(int)>& find);
  bool is_empty() const noexcept { return arrivals_.empty(); }

 private:
  std::vector<std::unique_ptr<Arrival>> arrivals_;
};

/// One thread at a time uses it, the one that does the proxy's work. Methods throw what flows
/// throw.
class Peer {
 public:
  Peer(Transport& transport, const Lane& lane, int rank, Counters& counters);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  int rank() const noexcept { return lane_.peer; }
  /// A flow over a connection that the peer has made.
  void take(PeerHello::Use use, std::unique_ptr<ReceiveFlow> flow);
  /// Receives what has come. True if anything has.
  bool receive(const Listening& listening);
  /// Call it where `receive` has found nothing, after `Arrivals::take_all` in the same round.
  /// Throws why the peer is lost, once nothing that it has sent can explain the end of a
  /// connection. `is_awaited`: a kernel waits for this peer.
  void judge(bool is_awaited);
  /// The end of a connection is not explained yet, so `judge` is to be called soon.
  bool is_in_question() const noexcept { return end_ && !is_gone() && !is_absent_; }
  /// The credits to send: all; all but few in bulk (`most`); those that may not wait; or only
  /// urgent ones. The two in the middle include all that have waited long. The others travel with
  /// the next chunk, because a message for each would double the messages of small calls.
  enum class Credits { all, most, due, urgent };
  /// How long credits that may wait do so, if nothing asks for them.
  static constexpr std::chrono::milliseconds most_held{1};
  /// Sends what it can. True if anything moved.
  bool send(Credits credits);
  void tell(std::vector<std::byte> words) {
    if (!is_gone() && !end_) told_.push_back(std::move(words));
  }
  /// A flow is open either way, or about to be.
  bool is_known() const noexcept;
  /// Says whether a connection to the peer is still unanswered, if that has changed.
  void report_unanswered(const Listening& listening);
  /// Something waits to be handed to the transport, or is on its way out.
  bool has_unsent() const;
  /// After all else, sends the entry `left`.
  void say_farewell();
  /// True once everything has been handed to the transport, also the farewell, and this end may
  /// close.
  bool has_left() const;
  /// The end of this process takes away nothing that was sent.
  bool is_safe() const;
  /// The peer has said that it leaves: from now on the end of its flows is no loss.
  bool peer_has_left() const noexcept { return peer_left_; }
  void lose() noexcept { is_lost_ = true; }
  bool is_lost() const noexcept { return is_lost_; }

 private:
  static constexpr std::size_t frames = 4;  // under way at once, each way
  struct FrameBuffer {
    std::array<std::byte, frame_bytes> bytes;
    std::unique_ptr<Registration> memory;
    Request request = nullptr;
  };
  /// The lane's slots, registered.
  struct Slots {
    std::unique_ptr<Registration> host, device;
    Registration& at(std::uint32_t place) const { return place == 0 ? *host : *device; }
  };
  /// A flow to the peer. It is connected when the first message is due.
  struct Outgoing {
    PeerHello hello;
    std::unique_ptr<SendFlow> flow;
    std::unique_ptr<Registration> hello_memory;
    Slots slots;  // for data
    Request greeting = nullptr;
    bool is_ready = false;
  };
  struct Sending {
    std::uint32_t place;  // 0 or `ChunkNote::on_device`
    const std::byte* data;
    std::size_t bytes;
    Request request = nullptr;
  };
  /// A chunk that has been announced, whose counter may not be raised yet.
  struct Arriving {
    std::uint32_t channel, value, offset, bytes;
    bool is_data;  // else its bytes are there, and it waits for chunks before it
    Checksum checksum = 0;
    Request request = nullptr;
  };
  enum class Farewell { none, due, framed, flushing };

  bool is_gone() const noexcept { return is_lost_ || peer_left_; }
  void end(const Error& error);
  template <class Action>
  bool attempt(bool& has_ended, Action action);
  bool may_hear_more() const;
  bool is_only_unreachable() const;
  bool has_published() const;
  bool is_larger() const noexcept { return frames_out_.hello.rank > lane_.peer; }
  Slots registered(Flow& flow, std::byte* host, std::byte* device) const;
  bool open(Outgoing& outgoing);
  void set_flow(Outgoing& outgoing, std::unique_ptr<SendFlow> flow);
  void set_frames_in(std::unique_ptr<ReceiveFlow> flow);
  void drop_frames_in();
  void drop_frames_out();
  bool hear_replies();
  bool is_to_move() const;
  void move();
  void close();
  bool finish_frames();
  bool has_room(std::size_t size);
  bool has_no_answer() const;
  bool collect(Credits credits);
  bool collect_credits(Credits credits);
  bool may_wait(std::uint32_t channel, std::uint32_t chunks, Credits credits) const;
  bool collect_chunks(std::uint32_t channel);
  bool send_frame();
  bool send_data();
  void post_frames();
  bool receive_frames(const Listening& listening);
  void read(std::span<const std::byte> frame, const Listening& listening);
  void arrive(const FrameReader::Item& item);
  bool receive_data();
  std::span<std::byte> frame_room(FrameBuffer& frame) const;
  std::span<const std::byte> checked(std::span<const std::byte> frame) const;
  void check_chunk(const Arriving& one) const;
  [[noreturn]] void refuse(const char* what) const;

  Transport& transport_;
  Lane lane_;
  Address address_;
  Counters& counters_;
  // First, because flows outlive their registrations.
  std::unique_ptr<ReceiveFlow> frames_in_, data_in_;
  Outgoing frames_out_, data_out_;
  std::array<FrameBuffer, frames> out_, in_;
  std::size_t next_in_ = 0;
  FrameBuffer* filling_ = nullptr;  // the next frame, with what `writer_` has put there
  FrameWriter writer_{{}};
  std::unique_ptr<Arrival> replies_;  // over the connection that this rank made
  std::unique_ptr<SendFlow> reply_;   // over the one that the peer made; unused so far
  bool is_moving_ = false, peer_has_moved_ = false;
  bool is_two_way_ = false;
  bool has_given_up_ = false;             // its calls, since the peer has left
  std::unique_ptr<SendFlow> moved_from_;  // until `moved` has arrived
  Slots data_in_slots_;
  std::vector<std::uint32_t> published_, consumed_;  // seen, per channel
  std::vector<std::uint32_t> credit_flags_;          // per channel, of the note of its last chunk
  std::optional<std::chrono::steady_clock::time_point> held_since_;  // a credit that may wait
  std::deque<Sending> sending_;
  std::deque<Arriving> arriving_;
  std::vector<std::uint32_t> held_;  // entries of `arriving_`, per channel
  std::deque<std::vector<std::byte>> told_;
  Farewell farewell_ = Farewell::none;
  std::chrono::steady_clock::time_point farewell_at_{};
  bool is_lost_ = false, peer_left_ = false;
  bool has_unsent_chunks_ = false;  // in the next frame
  std::optional<Error> end_;        // of a connection, or of a call
  std::chrono::steady_clock::time_point ended_at_{};
  bool frames_in_ended_ = false, replies_ended_ = false;
  bool has_looked_ = false;  // since the end
  std::string unanswered_;   // as reported
  bool is_absent_ = false;   // has left or ended before it said anything to this rank
};

}  // namespace plait::transport
