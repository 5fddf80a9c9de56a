#include "core/stream_order.hpp"

#include <utility>

namespace plait {

StreamOrder::StreamOrder(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
  plain_.event = backend_->create_event(false);
  captured_.event = backend_->create_event(false);
}

bool StreamOrder::enter(NativeStream stream) {
  const bool captured = backend_->is_capturing(stream);
  entered_ = !captured ? &plain_ : backend_->captures_spread() ? &captured_ : nullptr;
  if (entered_ == nullptr) return captured;  // a capture is of one stream
  // While a capture lasts, its streams do, so their handles tell them apart.
  stream_ = captured ? reinterpret_cast<std::uintptr_t>(stream) : backend_->identity(stream);
  if (captured)
    if (const std::uint64_t capture = backend_->capture(stream); std::exchange(capture_, capture) != capture) captured_.stream.reset();
  if (entered_->stream && stream_ != *entered_->stream) entered_->event->wait_in(stream);
  return captured;
}

void StreamOrder::leave(NativeStream stream) {
  if (entered_ == nullptr) return;
  entered_->event->record(stream);
  entered_->stream = stream_;
}

}  // namespace plait
