#include "plait/stream.hpp"

#include <utility>

#include "backends/backend.hpp"
#include "communicator/groups/open_group.hpp"
#include "core/float_environment.hpp"
#include "core/log.hpp"
#include "core/process.hpp"

namespace plait {

Stream::Stream(std::shared_ptr<Backend> backend)
    : backend_(std::move(backend)),
      native_(backend_->create_stream()),
      process_(process_number()) {}

Stream::~Stream() {
  if (!backend_) return;
  if (process_ != process_number()) {
    keep_for_ever(std::move(backend_));
    return;
  }
  if (const std::size_t calls = OpenGroup::of_thread().forget(native_); calls != 0)
    log::warn(
        "a stream is destroyed with calls in a group that has not ended: {} of them, never "
        "enqueued",
        calls);
  const FloatEnvironment defaults;
  backend_->destroy_stream(native_);
}

Stream::Stream(Stream&& other) noexcept
    : backend_(std::move(other.backend_)),
      native_(std::exchange(other.native_, nullptr)),
      process_(other.process_) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(backend_, other.backend_);
  std::swap(native_, other.native_);
  std::swap(process_, other.process_);
  return *this;
}

}  // namespace plait
