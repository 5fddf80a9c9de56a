#include "algorithms/contract/side_stream.hpp"

#include <utility>

namespace plait {

SideStream::SideStream(std::shared_ptr<Backend> backend) : backend_(std::move(backend)) {
  if (!backend_->captures_spread()) return;
  forked_ = backend_->create_event(false);
  joined_ = backend_->create_event(false);
  side_ = backend_->create_stream();
}

SideStream::~SideStream() {
  if (side_ == nullptr) return;
  try {
    const DeviceScope device(*backend_);
    backend_->destroy_stream(side_);
  } catch (const std::exception&) {  // the device is lost, and its streams with it
  }
}

NativeStream SideStream::fork(NativeStream stream) {
  if (side_ == nullptr) return stream;
  forked_->record(stream);
  forked_->wait_in(side_);
  return side_;
}

void SideStream::join(NativeStream stream) {
  if (side_ == nullptr) return;
  joined_->record(side_);
  joined_->wait_in(stream);
}

}  // namespace plait
