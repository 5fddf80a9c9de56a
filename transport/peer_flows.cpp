// Which connections a peer's flows use.
#include <utility>

#include "core/log.hpp"
#include "transport/peer.hpp"

namespace plait::transport {

Arrival::Arrival(std::unique_ptr<ReceiveFlow> from)
    : flow(std::move(from)),
      memory(flow->register_memory(&hello, sizeof(PeerHello), MemoryKind::host)) {}

bool Arrival::has_said_hello() {
  if (has_come) return true;
  if (request == nullptr) request = flow->irecv(&hello, sizeof(PeerHello), *memory);
  std::size_t size = 0;
  if (request == nullptr || !flow->test(request, &size)) return false;
  if (size != sizeof(PeerHello)) hello.rank = -1;
  return has_come = true;
}

void Arrivals::take_all(Listener& listener, int rank, const std::function<Peer*(int)>& find) {
  while (auto flow = listener.accept())
    arrivals_.push_back(std::make_unique<Arrival>(std::move(flow)));
  std::erase_if(arrivals_, [&](const auto& arrival) {
    try {
      if (!arrival->has_said_hello()) return false;
      arrival->memory.reset();  // the flow may end in `take`
      Peer* const peer = find(arrival->hello.rank);
      if (peer != nullptr && arrival->hello.use <= PeerHello::Use::data)
        peer->take(arrival->hello.use, std::move(arrival->flow));
    } catch (const Error& error) {
      log::info("rank {}: a connection from another node failed: {}", rank, error.what());
    }
    return true;
  });
}

void Peer::take(PeerHello::Use use, std::unique_ptr<ReceiveFlow> flow) {
  const bool is_of_data = use == PeerHello::Use::data;
  if ((is_of_data ? data_in_ : frames_in_) != nullptr) refuse("a second flow of one kind");
  try {
    if (!is_of_data) {
      set_frames_in(std::move(flow));
    } else {
      data_in_slots_ = registered(*flow, lane_.incoming, lane_.device_incoming);
      flow->expect_large();
      data_in_ = std::move(flow);
    }
  } catch (const Error& error) {  // without this flow the peer would wait for its deadline
    return end(error);
  }
  if (is_of_data) return;
  // A call of this rank has failed, but the peer can call.
  if (end_ && frames_out_.flow == nullptr) end_.reset(), is_absent_ = false;
  reply_ = frames_in_->reply();
  is_two_way_ = is_two_way_ || reply_ != nullptr;
  // Both ranks have called, so the smaller one does not answer over this rank's connection.
  if (is_larger()) replies_.reset();
}

void Peer::set_frames_in(std::unique_ptr<ReceiveFlow> flow) {
  if (frames_in_ != nullptr) refuse("a second flow of one kind");
  frames_in_ = std::move(flow);
  frames_in_ended_ = false;
  try {
    for (FrameBuffer& frame : in_)
      frame.memory =
          frames_in_->register_memory(frame.bytes.data(), frame.bytes.size(), MemoryKind::host);
  } catch (...) {
    drop_frames_in();
    throw;
  }
}

void Peer::drop_frames_in() {
  for (FrameBuffer& frame : in_) frame.memory.reset(), frame.request = nullptr;
  next_in_ = 0;
  frames_in_.reset();
  reply_.reset();
}

/// The peer answers over the connection that this rank made: from its first frame on, or after it
/// has moved.
bool Peer::hear_replies() {
  if (replies_ == nullptr || peer_left_ || !replies_->has_said_hello()) return false;
  const PeerHello hello = replies_->hello;
  if (hello.rank != lane_.peer || hello.use == PeerHello::Use::data)
    refuse("a reply that is not to frames");
  if (hello.use == PeerHello::Use::later_frames && !peer_has_moved_) return false;
  replies_->memory.reset();
  set_frames_in(std::move(replies_->flow));
  replies_.reset();
  return true;
}

/// True once the flow is connected and the peer knows whose it is.
bool Peer::open(Outgoing& outgoing) {
  if (outgoing.is_ready) return true;
  const bool is_of_frames = &outgoing == &frames_out_;
  if (outgoing.flow == nullptr) {
    if (is_of_frames && reply_ != nullptr) {
      transport_.give_up(address_, Ways::both);
      set_flow(outgoing, std::move(reply_));
    } else {
      auto flow = transport_.connect(address_, is_of_frames ? Ways::both : Ways::one);
      if (flow == nullptr) return false;
      const bool may_be_answered = is_of_frames && (frames_in_ == nullptr || !is_larger());
      if (auto replies = may_be_answered ? flow->replies() : nullptr) {
        replies_ = std::make_unique<Arrival>(std::move(replies));
        is_two_way_ = true;
      }
      set_flow(outgoing, std::move(flow));
    }
  }
  if (outgoing.greeting == nullptr) {
    outgoing.greeting =
        outgoing.flow->isend(&outgoing.hello, sizeof(PeerHello), *outgoing.hello_memory);
    if (outgoing.greeting == nullptr) return false;
  }
  outgoing.is_ready = outgoing.flow->test(outgoing.greeting);
  return outgoing.is_ready;
}

void Peer::set_flow(Outgoing& outgoing, std::unique_ptr<SendFlow> flow) {
  outgoing.flow = std::move(flow);
  outgoing.hello_memory =
      outgoing.flow->register_memory(&outgoing.hello, sizeof(PeerHello), MemoryKind::host);
  if (&outgoing == &data_out_) {
    outgoing.slots = registered(*outgoing.flow, lane_.outgoing, lane_.device_outgoing);
    outgoing.flow->expect_large();
    return;
  }
  for (FrameBuffer& frame : out_)
    frame.memory =
        outgoing.flow->register_memory(frame.bytes.data(), frame.bytes.size(), MemoryKind::host);
}

Peer::Slots Peer::registered(Flow& flow, std::byte* host, std::byte* device) const {
  const std::size_t bytes = lane_.channels * lane_.channel_bytes;
  Slots slots{.host = flow.register_memory(host, bytes, MemoryKind::host), .device = nullptr};
  if (device != nullptr) slots.device = flow.register_memory(device, bytes, lane_.device_kind);
  return slots;
}

void Peer::drop_frames_out() {
  for (FrameBuffer& frame : out_) frame.memory.reset(), frame.request = nullptr;
  frames_out_.hello_memory.reset();
  frames_out_.greeting = nullptr;
  frames_out_.is_ready = false;
  frames_out_.flow.reset();
  moved_from_.reset();
}

/// Frames go over the connection that this rank made, and there is that of a smaller one.
bool Peer::is_to_move() const {
  return is_larger() && reply_ != nullptr && frames_out_.is_ready &&
         farewell_ != Farewell::framed && farewell_ != Farewell::flushing;
}

/// Once `moved` is on its way, and all before it.
void Peer::move() {
  for (const FrameBuffer& frame : out_)
    if (frame.request != nullptr) return;
  if (filling_ != nullptr) return;
  auto moved_from = std::move(frames_out_.flow);
  drop_frames_out();
  moved_from_ = std::move(moved_from);
  frames_out_.hello.use = PeerHello::Use::later_frames;
  set_flow(frames_out_, std::move(reply_));
  is_moving_ = false;
}

}  // namespace plait::transport
