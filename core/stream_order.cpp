#include "core/stream_order.hpp"

namespace plait {

StreamOrder::Scope StreamOrder::enter(NativeStream stream) {
  if (used_ && stream == last_stream_ && !last_call_) return {nullptr, stream};
  if (backend_->is_capturing(stream)) return {nullptr, stream};
  if (used_ && stream != last_stream_) {
    if (last_call_) {
      last_call_->wait_in(stream);
    } else {
      // The first change of stream: the old one may be gone by now, so nothing can be recorded in it.
      backend_->synchronize_device();
      last_call_ = backend_->create_event();
    }
  }
  used_ = true;
  last_stream_ = stream;
  return {last_call_ ? this : nullptr, stream};
}

StreamOrder::Scope::~Scope() {
  if (order_ != nullptr) order_->last_call_->record(stream_);
}

}  // namespace plait
