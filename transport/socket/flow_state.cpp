#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/log.hpp"
#include "core/text.hpp"
#include "plait/error.hpp"
#include "transport/socket/flow_ends.hpp"

namespace plait::transport {

FlowState::FlowState(const FlowSockets& sockets)
    : peer_(plait::detail::peer_name(sockets.front().get())) {}

void FlowState::require_whole() const {
  if (is_broken()) throw Error(*error_);
}

void FlowState::lose(int error) {
  // Other errors are mistakes of this process or of its system.
  constexpr std::array lost{ECONNRESET, EPIPE,        ETIMEDOUT, EHOSTUNREACH, ENETUNREACH,
                            ENETDOWN,   ECONNABORTED, ENETRESET, EHOSTDOWN,    0};
  const bool is_lost = std::find(lost.begin(), lost.end(), error) != lost.end();
  const bool closed = error == 0 || error == EPIPE;
  break_off(is_lost ? ErrorCode::rank_lost : ErrorCode::bootstrap,
            closed ? "the other rank has closed it" : system_text(error));
}

void FlowState::break_off(ErrorCode code, const std::string& why) {
  error_.emplace(code, fmt::format("connection to {}: {}", peer_, why));
  is_broken_.store(true, std::memory_order_release);
  throw Error(*error_);
}

FlowMessage* FlowMessages::post(std::byte* data, std::size_t bytes, std::size_t stripes) {
  const std::uint64_t number = posted_.load(std::memory_order_relaxed);
  FlowMessage& message = (*this)[number];
  if (message.in_use) return nullptr;
  message.in_use = true;
  message.data = data;
  message.room = bytes;
  message.number = number;
  message.bytes = 0;
  message.stripes_left.store(stripes, std::memory_order_relaxed);
  posted_.store(number + 1, std::memory_order_release);
  return &message;
}

SocketFlow::SocketFlow(std::shared_ptr<FlowSockets> sockets, std::shared_ptr<FlowThreads> threads)
    : sockets_(std::move(sockets)), state_(*sockets_), threads_(std::move(threads)) {}

void SocketFlow::start_thread(bool sends) {
  if (threads_ == nullptr || thread_ != nullptr) return;
  std::shared_ptr<FlowThread> thread;
  try {
    thread = threads_->next(sends);
  } catch (const Error& error) {
    log::info("{}; the proxy moves all messages", error.what());
  }
  if (thread == nullptr) return;
  for (WatchedSocket& socket : *sockets_) socket.move_to(thread->waiter());
  thread_ = std::move(thread);
  thread_->add(*this);
}

/// Looks for a break first: what was complete before is complete then.
bool SocketFlow::is_complete(const FlowMessage& message) const {
  const bool broken = state_.is_broken();
  if (message.stripes_left.load(std::memory_order_acquire) == 0) return true;
  if (broken) state_.require_whole();
  return false;
}

void SocketFlow::count_stripe(FlowMessage& message) {
  if (message.stripes_left.fetch_sub(1, std::memory_order_release) == 1) ++messages_moved_;
}

void SocketFlow::stop_thread() noexcept {
  if (thread_ != nullptr) thread_->remove(*this, *sockets_);
}

std::unique_ptr<Registration> register_for_sockets(MemoryKind kind) {
  if (kind != MemoryKind::host)
    throw Error(ErrorCode::unsupported, "sockets: messages must lie in host memory");
  return std::make_unique<Registration>();
}

}  // namespace plait::transport
