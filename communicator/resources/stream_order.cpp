#include "communicator/resources/stream_order.hpp"

#include <utility>

namespace plait {

StreamOrder::StreamOrder(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
  plain_.event = backend_->create_event(false);
  captured_.event = backend_->create_event(false);
  default_call_.event = backend_->create_event(false);
  default_copy_.event = backend_->create_event(false);
}

bool StreamOrder::enter(NativeStream stream) {
  if (backend_->is_capturing(stream)) {
    entered_ = backend_->captures_spread() ? &captured_ : nullptr;
    if (entered_ == nullptr) return true;  // a capture has one stream
    // The streams of a capture live as long as it, so their handles tell them apart.
    stream_ = reinterpret_cast<std::uintptr_t>(stream);
    if (const std::uint64_t capture = backend_->capture(stream);
        std::exchange(capture_, capture) != capture)
      captured_.stream.reset();
    captured_.wait_in(stream, stream_);
    return true;
  }
  stream_ = backend_->identity(stream);
  const bool per_thread = backend_->is_per_thread(stream);
  if (last_ != nullptr) last_->wait_in(stream, stream_);
  if (per_thread) default_copy_.wait_in(stream, stream_);
  entered_ = per_thread ? &default_call_ : &plain_;
  return false;
}

void StreamOrder::leave(NativeStream stream) {
  if (entered_ == nullptr) return;
  entered_->record(stream, stream_);
  if (entered_ != &captured_) last_ = entered_;
}

void StreamOrder::enter_copy(NativeStream stream) {
  if (!is_copy_in_order(stream)) return;
  default_call_.wait_in(stream, backend_->identity(stream));
  default_copy_.wait_in(stream, backend_->identity(stream));
}

void StreamOrder::leave_copy(NativeStream stream) {
  if (is_copy_in_order(stream)) default_copy_.record(stream, backend_->identity(stream));
}

void StreamOrder::synchronize(NativeStream stream) {
  backend_->synchronize(stream);
  for_other_defaults(stream, [](DeviceEvent& event) { event.synchronize(); });
}

bool StreamOrder::is_done(NativeStream stream) {
  bool done = backend_->is_done(stream);
  for_other_defaults(stream, [&](DeviceEvent& event) { done = event.test() && done; });
  return done;
}

bool StreamOrder::is_idle() const noexcept try {
  return last_ == nullptr || last_->event->test();
} catch (const std::exception&) {  // a lost device runs nothing, and has done no call's work
  return false;
}

}  // namespace plait
