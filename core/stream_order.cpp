#include "core/stream_order.hpp"

namespace plait {

bool StreamOrder::enter(NativeStream stream) {
  if (backend_->is_capturing(stream)) return false;
  if (used_ && stream != last_stream_) last_call_->wait_in(stream);
  return true;
}

void StreamOrder::leave(NativeStream stream) {
  last_call_->record(stream);
  last_stream_ = stream;
  used_ = true;
}

}  // namespace plait
