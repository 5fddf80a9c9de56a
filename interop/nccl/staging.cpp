#include "interop/nccl/staging.hpp"

#include "core/log.hpp"
#include "interop/nccl/border.hpp"

namespace plait::nccl {

Staging::Staging(const char* call, std::shared_ptr<Comm> comm, Communicator& of, std::size_t bytes,
                 NativeStream stream)
    : comm_(std::move(comm)),
      backend_(backend_of(of)),
      bytes_(bytes),
      stream_(backend_.resolve(stream)) {
  const DeviceScope device(backend_);
  if (backend_.is_capturing(stream_))
    refuse_use(call, "a buffer that is not aligned to its elements can't be captured");
  memory_ = backend_.allocate(bytes_);
  log::debug("{}: a buffer is not aligned to its elements: {} bytes are copied", call, bytes_);
}

Staging::~Staging() {
  try {
    const DeviceScope device(backend_);
    auto event = backend_.create_event(false);
    event->record(stream_);
    comm_->retire(memory_, std::move(event));
  } catch (const std::exception& error) {  // a device that is lost, with its memory
    log::debug("{}", error.what());
  }
}

void Staging::copy(void* to, const void* from) {
  const DeviceScope device(backend_);
  backend_.copy(to, from, bytes_, stream_);
}

}  // namespace plait::nccl
