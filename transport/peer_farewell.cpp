// How two ranks say farewell. Everything that a rank sends before its farewell arrives, in every
// order of the connections between the two, and however late any of them is.
//
// Connections for frames. A rank calls if it has something to send and no connection to send it
// over. It is bound to its own connection once that is complete; before, it gives the call up if
// the peer's arrives, and answers over that. So there are two connections only if both ranks were
// bound before either had seen the other's. Then the larger rank moves: its last entry on its own
// is `moved`, and the next ones follow a hello of `later_frames` on the other. The smaller rank has
// sent nothing over the connection of the larger one, and never does.
//
// Who closes.
//  1. The larger rank closes the connection that it has moved from, once `moved` has arrived
//     (`SendFlow::is_safe`: the other machine has acknowledged it). The smaller one does once it
//     has read `moved`.
//  2. A rank that leaves sends `left` after all else, and closes nothing before all that it has
//     sent to that peer, on whatever connection, has arrived. Until then it takes calls, and says
//     farewell to a rank whose hello comes late.
//  3. A rank that has read `left`, and all data that were announced before, closes everything, and
//     gives up its calls: the peer needs nothing more from it.
//  4. The system closes all connections of a process that ends. A process that leaves by `exit` or
//     by the end of `main` waits before for what 2 waits for (`Proxy::flush`).
//
// Why no farewell is lost. Say rank X sees the end of a connection, because it reads the end, can't
// send, or is refused. The peer Y has closed it, or its process has ended. If it was by 1, X has
// read `moved` first and no longer looks at the connection. By 3, X itself leaves, and needs
// nothing more from Y. By 2 or 4, all of Y's bytes have arrived at X's machine before. They lie in
// connections that X holds: in one that X made; or in one that Y made, and Y sends over that only
// once X's door has answered it (`FlowCall`). So they are found by X's next look at its door, at
// the hellos of what came there, and at all its flows from Y, until those have nothing more
// (`judge`). If that finds no `left`, Y has not left in peace. Y may also have closed before its
// bytes arrived, if its patience was over or its process was killed. So while another flow of Y's
// is open, X waits for a moment. A flow that was there and ended without `left` is a loss then.
//
// A rank that leaves says no farewell to ranks that it has no connection with, so a rank that calls
// it later is refused. If X has nothing from Y and no chunk for it, but only credits or words, that
// says nothing of Y: a call that X and Y are in has a chunk one way or the other. Y is *absent*. X
// has lost it as soon as X publishes a chunk for it, or a kernel of X waits for it. A connection
// that Y makes after all is as good as that of X.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "transport/peer.hpp"

namespace plait::transport {

using Clock = std::chrono::steady_clock;

void Peer::end(const Error& error) {
  if (end_) return;
  end_ = error;
  ended_at_ = Clock::now();
  has_looked_ = false;
}

/// Runs `action`. Leaves an error that says that the peer is gone to `judge`.
template <class Action>
bool Peer::attempt(bool& has_ended, Action action) {
  if (has_ended) return false;
  try {
    return action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::rank_lost) throw;
    has_ended = true;
    end(error);
    return true;  // news, so that the next round comes soon
  }
}

bool Peer::receive(const Listening& listening) {
  if (is_lost_) return false;
  bool moved = attempt(replies_ended_, [&] { return hear_replies(); });
  moved = attempt(frames_in_ended_, [&] { return receive_frames(listening); }) || moved;
  moved = receive_data() || moved;
  if (peer_left_ && arriving_.empty()) close();
  return moved;
}

bool Peer::may_hear_more() const {
  return (frames_in_ != nullptr && !frames_in_ended_) || (replies_ != nullptr && !replies_ended_);
}

/// There is no connection, and has been none.
bool Peer::is_only_unreachable() const {
  return frames_out_.flow == nullptr && frames_in_ == nullptr && data_in_ == nullptr;
}

void Peer::judge(bool is_awaited) {
  constexpr std::chrono::seconds grace{1};
  if (!end_ || is_gone()) return;
  if (is_absent_) {
    if (is_awaited) throw Error(*end_);
    return;
  }
  if (!std::exchange(has_looked_, true)) return;  // the end was noticed after the last look
  if (end_->code() == ErrorCode::rank_lost) {
    const bool has_chunks = has_unsent_chunks_ || has_published();
    is_absent_ = is_only_unreachable() && !has_chunks && !is_awaited;
    const bool may_come = may_hear_more() || is_only_unreachable();
    if (is_absent_ || (may_come && Clock::now() < ended_at_ + grace)) return;
  }
  throw Error(*end_);
}

bool Peer::is_known() const noexcept {
  return frames_out_.flow != nullptr || frames_in_ != nullptr || data_in_ != nullptr ||
         has_unsent();
}

bool Peer::has_unsent() const {
  return !is_gone() && !end_ &&
         (!sending_.empty() || filling_ != nullptr || !told_.empty() ||
          std::any_of(out_.begin(), out_.end(),
                      [](const FrameBuffer& frame) { return frame.request != nullptr; }));
}

void Peer::report_unanswered(const Listening& listening) {
  std::string now = transport_.unanswered(address_);
  if (now == unanswered_) return;
  unanswered_ = std::move(now);
  if (listening.unanswered) listening.unanswered(rank(), unanswered_);
}

void Peer::say_farewell() {
  farewell_ = Farewell::due;
  farewell_at_ = Clock::now();
}

/// A peer that left before this rank had a connection to it answers no call, and not every
/// transport says so. So this rank does not wait for it only to deliver words.
bool Peer::has_no_answer() const {
  constexpr std::chrono::milliseconds grace{200};
  return is_only_unreachable() && !has_unsent_chunks_ && Clock::now() > farewell_at_ + grace;
}

bool Peer::has_left() const {
  // A peer without a flow either way knows nothing of this rank, and needs no goodbye.
  if (is_gone() || end_ || !is_known() || has_no_answer()) return true;
  return farewell_ == Farewell::flushing && !has_unsent() && is_safe();
}

bool Peer::is_safe() const {
  if (is_gone() || end_) return true;
  const auto is_safe = [](const auto& flow) { return flow == nullptr || flow->is_safe(); };
  return is_safe(frames_out_.flow) && is_safe(data_out_.flow) && is_safe(moved_from_);
}

/// The peer has left, and waits for an acknowledgement before it closes its end. To close this one
/// is to give it at once. Not every transport ends a flow so easily. A call that the peer has
/// accepted must end, too: it waits for whatever it has accepted (`Proxy::serve`).
void Peer::close() {
  if (!std::exchange(has_given_up_, true)) {
    transport_.give_up(address_, Ways::both);
    transport_.give_up(address_, Ways::one);
  }
  if (!is_two_way_) return;
  is_two_way_ = false;
  replies_.reset();
  drop_frames_in();
  filling_ = nullptr;
  drop_frames_out();
}

}  // namespace plait::transport
