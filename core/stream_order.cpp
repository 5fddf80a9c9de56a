#include "core/stream_order.hpp"

namespace plait {

bool StreamOrder::enter(NativeStream stream) {
  if (backend_->is_capturing(stream)) return false;
  stream_ = backend_->identity(stream);
  if (last_stream_ && stream_ != *last_stream_) last_call_->wait_in(stream);
  return true;
}

void StreamOrder::leave(NativeStream stream) {
  last_call_->record(stream);
  last_stream_ = stream_;
}

}  // namespace plait
