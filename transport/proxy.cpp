#include "transport/proxy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/log.hpp"
#include "core/start_thread.hpp"
#include "transport/peer.hpp"

namespace plait::transport {

using Clock = std::chrono::steady_clock;

/// The choices for a round, which always sends chunks.
struct Proxy::Work {
  Peer::Credits credits;
  Peer* awaited;   // receives from this one; null: none
  bool hears_all;  // receives from all peers, and from new ones, and sends `awaited` most credits
  bool looks_at_all = false;  // at all ranks that are no peers yet, else at a few
};
constexpr Proxy::Work Proxy::everything{Peer::Credits::all, nullptr, true, true},
    Proxy::usual{Peer::Credits::most, nullptr, true},
    Proxy::before_sleep{Peer::Credits::most, nullptr, true, true};

Proxy::Proxy(std::unique_ptr<Transport> transport, int rank)
    : transport_(std::move(transport)),
      listener_(transport_->listen()),
      rank_(rank),
      arrivals_(std::make_unique<Arrivals>()) {}

Proxy::~Proxy() {
  transport_->set_end({});
  stop(std::chrono::seconds(5));
}

void Proxy::start(int ranks, LaneTo lane_to, Listening listening) {
  listening_ = std::move(listening);
  lane_to_ = std::move(lane_to);
  peer_of_.resize(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) is_unmet_.push_back(lane_to_(rank).has_value());
  unmet_ = static_cast<std::size_t>(std::count(is_unmet_.begin(), is_unmet_.end(), true));
  thread_ = start_thread("the thread of a proxy", [this] { run(); });
  transport_->set_end([this] {
    if (listening_.end) listening_.end();
    stop(std::chrono::seconds(5));
    has_ended_ = true;
  });
}

void Proxy::stop(std::chrono::milliseconds patience) noexcept {
  const std::lock_guard stopping(stopping_);
  if (!thread_.joinable()) return;
  end_by_ = Clock::now() + patience;
  {
    const std::lock_guard resting(resting_);
    ending_ = true;
  }
  rested_.notify_one();
  transport_->wake();
  thread_.join();
}

/// All of these flags are sequentially consistent. The thread sets `sleeping_` or `is_resting_`
/// before its last look at `woken_` or `must_work_`; this function sets those two before it looks
/// at the others. So either the thread sees them, or this function ends its sleep or rest.
void Proxy::wake() noexcept {
  woken_ = true;
  if (sleeping_) return transport_->wake();
  must_work_ = true;
  if (is_resting_) end_rest();
}

/// The thread holds the lock from its look at `must_work_` until it waits. So once this function
/// has had the lock, the thread either has yet to look or already waits.
void Proxy::end_rest() noexcept {
  { const std::lock_guard resting(resting_); }
  rested_.notify_one();
}

void Proxy::tell(int peer, std::span<const std::byte> words) {
  if (peer < 0 || static_cast<std::size_t>(peer) >= peer_of_.size() || !lane_to_(peer))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tell: rank {} has no lane to rank {}", rank_, peer));
  keep({peer, {words.begin(), words.end()}, Reach::all});
}

void Proxy::tell_all(std::span<const std::byte> words, Reach reach) {
  keep({std::nullopt, {words.begin(), words.end()}, reach});
}

void Proxy::keep(Told told) {
  if (told.words.size() > frame_bytes / 2)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("tell: rank {} has {} bytes; the most are {}", rank_, told.words.size(),
                            frame_bytes / 2));
  if (!is_open()) return;
  {
    const std::lock_guard lock(mutex_);
    told_.push_back(std::move(told));
    has_told_ = true;
  }
  wake();
}

void Proxy::flush(std::chrono::milliseconds patience) noexcept {
  const auto end = Clock::now() + patience;
  while (is_open() && Clock::now() < end) {
    {
      const std::unique_lock lock(working_, std::try_to_lock);
      if (lock.owns_lock()) {
        const bool moved = round(everything);
        if (!moved && !has_told_ && !any_peer(&Peer::has_unsent) && all_peers(&Peer::is_safe))
          return;
      } else {
        is_wanted_ = true;
        transport_->wake();
      }
    }
    std::this_thread::yield();
  }
}

Counters Proxy::counters() const {
  const std::lock_guard lock(mutex_);
  return published_;
}

void Proxy::lose(Peer& peer, const Error& why) {
  if (peer.is_lost()) return;
  peer.lose();
  if (!peer.peer_has_left() && !ending_ && listening_.lose) listening_.lose(peer.rank(), why);
}

namespace {

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

/// How long after the last `carry` the proxy's thread leaves the work to those that call it.
constexpr std::chrono::milliseconds carried_for{1};

}  // namespace

void Proxy::carry(int peer) noexcept {
  const bool last = peer < 0;
  const std::unique_lock lock(working_, std::try_to_lock);
  if (lock.owns_lock()) {
    // Each look for messages takes time from ranks that compute. So most calls look at the peer of
    // another node that the kernel waits for, or at none if it has ended or waits for a rank of
    // this node. Only every few calls look at all peers.
    constexpr unsigned all_every = 4, all_every_here = 16;
    Peer* const awaited = last ? nullptr : find(peer);
    const auto rank = static_cast<std::size_t>(peer);
    const bool is_elsewhere =
        awaited != nullptr || (!last && rank < is_unmet_.size() && is_unmet_[rank]);
    const bool hears_all = ++carried_ % (is_elsewhere ? all_every : all_every_here) == 0;
    const Work work{hears_all ? Peer::Credits::due : Peer::Credits::urgent, awaited, hears_all};
    bool moved = round(work);
    for (int more = 0; last && moved && more < 16; ++more) moved = round(work);
    carried_at_.store(now_ns(), std::memory_order_relaxed);
    if (!last || !any_peer(&Peer::has_unsent)) return;
    must_work_ = true;
    return end_rest();
  }
  // The proxy's thread has the work. Its round may have passed what this kernel has published.
  if (!last) is_wanted_ = true;
  woken_ = true;
  if (sleeping_) transport_->wake();
}

Peer* Proxy::find(int rank) const noexcept {
  const auto at = static_cast<std::size_t>(rank);
  return at < peer_of_.size() ? peer_of_[at] : nullptr;
}

Peer& Proxy::meet(const Lane& lane) {
  const auto rank = static_cast<std::size_t>(lane.peer);
  if (peer_of_[rank] != nullptr) return *peer_of_[rank];
  peers_.push_back(std::make_unique<Peer>(*transport_, lane, rank_, counters_));
  Peer& peer = *(peer_of_[rank] = peers_.back().get());
  is_unmet_[rank] = false;
  --unmet_;
  if (says_farewell_) peer.say_farewell();
  if (has_lost_all_) peer.lose();
  else if (listening_.meet) listening_.meet(lane);
  return peer;
}

/// Looks at the next so many ranks, whether one that is no peer yet has become one. Kernels give
/// credits to peers only, so a chunk is all that there may be.
bool Proxy::look_for_news(std::size_t ranks) {
  const std::size_t before = unmet_;
  for (ranks = std::min(ranks, peer_of_.size()); ranks != 0 && unmet_ != 0; --ranks) {
    const std::size_t rank = next_look_;
    next_look_ = (next_look_ + 1) % peer_of_.size();
    if (!is_unmet_[rank]) continue;
    const Lane lane = lane_to_(static_cast<int>(rank)).value();
    const auto has_news = [&](ChannelSignals& one) {
      return acquired(one.published) != lane.counters_begin;
    };
    if (std::any_of(lane.out_signals, lane.out_signals + lane.channels, has_news)) meet(lane);
  }
  return unmet_ != before;
}

bool Proxy::any_peer(bool (Peer::*holds)() const) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& peer) { return (*peer.*holds)(); });
}
bool Proxy::all_peers(bool (Peer::*hold)() const) const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [&](const auto& peer) { return (*peer.*hold)(); });
}

void Proxy::run() noexcept {
  if (listening_.begin) listening_.begin();
  while (serve()) rest();
}

/// Works until another thread wants to. False: the proxy is to end.
bool Proxy::serve() {
  const std::lock_guard lock(working_);
  quiet_since_ = Clock::now();
  for (;;) {
    if (ending_ && !std::exchange(says_farewell_, true)) {
      round(everything);  // a peer that gets the last words or chunks gets a farewell, too
      for (const auto& peer : peers_) peer->say_farewell();
    }
    const bool moved = round(ending_ ? everything : usual);
    if (moved || woken_.exchange(false)) quiet_since_ = Clock::now();
    // A flow that has just arrived is of a rank that knows this one, and so needs its farewell.
    const auto has_left = [&] { return arrivals_->is_empty() && all_peers(&Peer::has_left); };
    if (says_farewell_ && (Clock::now() > end_by_ || has_left())) return false;
    if (!ending_ && is_wanted_.exchange(false)) return true;
    if (!moved) sleep(quiet_since_);
  }
}

/// Leaves the work to `carry`, as long as that is called.
void Proxy::rest() {
  carried_at_ = now_ns();
  std::unique_lock lock(resting_);
  is_resting_ = true;
  while (!ending_ && !must_work_ &&
         now_ns() - carried_at_.load(std::memory_order_relaxed) <
             std::chrono::nanoseconds(carried_for).count())
    rested_.wait_for(lock, carried_for);
  is_resting_ = false;
  // Requests up to here are served by the round that comes next.
  must_work_ = false;
}

/// Moves what can be moved. True if anything did.
bool Proxy::round(const Work& work) {
  ++counters_.rounds;
  try {
    return advance(work);
  } catch (const std::exception& error) {  // of the transport as a whole
    lose_all(Error(ErrorCode::bootstrap, error.what()));
  }
  return false;
}

void Proxy::lose_all(const Error& why) {
  for (const auto& peer : peers_) lose(*peer, why);
  if (std::exchange(has_lost_all_, true) || ending_ || !listening_.lose) return;
  for (std::size_t rank = 0; rank < is_unmet_.size(); ++rank)
    if (is_unmet_[rank]) listening_.lose(static_cast<int>(rank), why);
}

/// Gives words that were told to their peers.
void Proxy::hand_out() {
  if (!has_told_.exchange(false)) return;
  std::vector<Told> told;
  {
    const std::lock_guard lock(mutex_);
    told.swap(told_);
  }
  for (const Told& one : told) {
    if (one.peer) {
      meet(lane_to_(*one.peer).value()).tell(one.words);
      continue;
    }
    for (std::size_t rank = 0; one.reach == Reach::all && rank < peer_of_.size(); ++rank)
      if (is_unmet_[rank]) meet(lane_to_(static_cast<int>(rank)).value());
    for (const auto& peer : peers_)
      if (one.reach == Reach::all || peer->is_known()) peer->tell(one.words);
  }
}

bool Proxy::advance(const Work& work) {
  hand_out();
  constexpr std::size_t few = 32;
  bool moved = look_for_news(work.looks_at_all ? peer_of_.size() : few);
  const auto each = [&](const auto& action) {
    for (const auto& peer : peers_) {
      try {
        moved = action(*peer) || moved;
      } catch (const Error& error) {
        lose(*peer, error);
      }
    }
  };
  // Published chunks go out before the system is asked for news.
  each([&](Peer& peer) {
    return peer.send(work.hears_all && &peer == work.awaited ? Peer::Credits::most : work.credits);
  });
  if (work.hears_all) accept_flows();
  each([&](Peer& peer) {
    const bool is_awaited = &peer == work.awaited;
    if (!work.hears_all && !is_awaited) return false;
    if (peer.receive(listening_)) return true;
    if (work.hears_all) peer.judge(is_awaited);
    return false;
  });
  if (listening_.serve) moved = listening_.serve() || moved;
  return moved;
}

void Proxy::accept_flows() {
  if (Clock::now() < next_accept_ && !any_peer(&Peer::is_in_question)) return;
  arrivals_->take_all(*listener_, rank_, [this](int rank) -> Peer* {
    if (rank < 0 || static_cast<std::size_t>(rank) >= peer_of_.size()) return nullptr;
    const auto lane = lane_to_(rank);
    return lane ? &meet(*lane) : nullptr;
  });
  next_accept_ = Clock::now() + std::chrono::microseconds(arrivals_->is_empty() ? 200 : 0);
}

/// Polls for a moment after the last news, because more may follow at once. Then it sleeps, longer
/// and longer: the transport ends the sleep when something arrives, `wake` when a kernel is
/// enqueued, and what a kernel publishes later, after a long wait in its stream, is seen after a
/// twentieth of that wait at most. So communicators that are idle cost next to nothing, however
/// many there are.
void Proxy::sleep(Clock::time_point quiet_since) {
  constexpr std::chrono::microseconds polling{50}, longest{2'000'000}, longest_captured{200},
      longest_in_question{10'000};
  const auto quiet =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - quiet_since);
  if (quiet < polling) return std::this_thread::yield();
  if (unmet_ != 0 && round(before_sleep)) return;
  for (const auto& peer : peers_) peer->report_unanswered(listening_);
  {
    const std::lock_guard lock(mutex_);
    published_ = counters_;
  }
  const bool in_question = any_peer(&Peer::is_in_question);
  sleeping_ = true;
  if (!woken_ && !has_told_)
    transport_->wait(std::clamp<std::chrono::microseconds>(quiet / 20, polling,
                                                           captured_     ? longest_captured
                                                           : in_question ? longest_in_question
                                                                         : longest));
  sleeping_ = false;
  next_accept_ = {};  // the news may be of the listener, and come once
  ++counters_.sleeps;
}

}  // namespace plait::transport
