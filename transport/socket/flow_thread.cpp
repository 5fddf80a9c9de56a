#include "transport/socket/flow_thread.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/start_thread.hpp"

namespace plait::transport {

using Clock = std::chrono::steady_clock;

FlowThread::FlowThread(std::shared_ptr<Waiter> done)
    : done_(std::move(done)), waiter_(std::make_shared<Waiter>()) {
  thread_ = start_thread("a thread that moves messages", [this] { run(); });
}

FlowThread::~FlowThread() {
  if (!origin_.is_here()) {  // a forked child does not have the thread
    thread_.detach();
    return;
  }
  ending_ = true;
  wake();
  thread_.join();
}

void FlowThread::add(MovedFlow& flow) {
  ++wanted_;
  {
    const std::lock_guard lock(mutex_);
    flows_.push_back(&flow);
  }
  --wanted_;
  wake();
}

void FlowThread::remove(MovedFlow& flow, std::span<WatchedSocket> sockets) noexcept {
  if (!origin_.is_here()) return;
  ++wanted_;
  {
    const std::lock_guard lock(mutex_);
    std::erase(flows_, &flow);
    for (WatchedSocket& socket : sockets) socket.leave();  // so that `take_news` finds none of them
  }
  --wanted_;
}

/// These flags are sequentially consistent. The thread sets `sleeping_` before its last look at
/// `woken_`; this function sets `woken_` before it looks at `sleeping_`. So either the thread sees
/// it, or this function ends its sleep.
void FlowThread::wake() noexcept {
  woken_ = true;
  if (sleeping_) waiter_->ring();
}

MovedFlow::Moved FlowThread::move_all() noexcept {
  const std::lock_guard lock(mutex_);
  auto moved = MovedFlow::Moved::nothing;
  for (MovedFlow* const flow : flows_) moved = std::max(moved, flow->move());
  return moved;
}

/// Polls for a moment after the last bytes, because more may follow at once. Then it sleeps until
/// the system has news of a socket, or another thread wakes it. A sleep ends after a while, because
/// flows look for machines that don't answer.
void FlowThread::run() noexcept {
  constexpr std::chrono::microseconds polling{100};
  constexpr std::chrono::milliseconds longest{100};
  auto quiet_since = Clock::now();
  while (!ending_) {
    const MovedFlow::Moved moved = move_all();
    if (moved == MovedFlow::Moved::news) done_->ring();
    while (wanted_ > 0) std::this_thread::yield();
    if (woken_.exchange(false) || moved != MovedFlow::Moved::nothing) {
      quiet_since = Clock::now();
    } else if (Clock::now() < quiet_since + polling) {
      std::this_thread::yield();
    } else {
      sleeping_ = true;
      if (!woken_) waiter_->watch(longest);
      sleeping_ = false;
      const std::lock_guard lock(mutex_);
      waiter_->take_news();
    }
  }
}

std::shared_ptr<FlowThread> FlowThreads::next(bool sends) {
  if (threads_.empty()) return nullptr;
  auto& thread = threads_[(2 * flows_[sends]++ + (sends ? 0 : 1)) % threads_.size()];
  if (thread == nullptr) thread = std::make_shared<FlowThread>(done_);
  return thread;
}

}  // namespace plait::transport
