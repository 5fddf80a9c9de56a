#include "interop/nccl/staging.hpp"

#include <algorithm>

#include "core/log.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/premul/kernel.hpp"

namespace plait::nccl {

void multiply(Backend& backend, NativeStream stream, const PreMulSum& op, const void* from,
              void* to, std::size_t count) {
  const DeviceScope device(backend);
  const DeviceInfo& info = backend.info();
  const bool on_host = info.backend == BackendKind::host;
  // Enough threads to fill a GPU; one per block on the host.
  const std::size_t most = on_host ? info.facts.units : 4 * info.facts.units,
                    fitting = count * size_of(op.type) / (std::size_t{1} << 14) + 1;
  const LaunchShape shape{static_cast<unsigned>(std::min(most, fitting)), on_host ? 1u : 256u};
  const premul::Args args{
      .from = from, .to = to, .count = count, .factor = op.from, .bits = op.bits};
  static_assert(sizeof args <= max_kernel_args);
  backend.launch(backend.find_kernel("premul", op.type), shape, &args, sizeof args, Watch{},
                 backend.resolve(stream));
}

Staging::Staging(const char* call, std::shared_ptr<Comm> comm, Communicator& of, std::size_t bytes,
                 NativeStream stream)
    : comm_(std::move(comm)),
      backend_(backend_of(of)),
      bytes_(bytes),
      stream_(backend_.resolve(stream)) {
  const DeviceScope device(backend_);
  is_captured_ = backend_.is_capturing(stream_);
  memory_ = comm_->lend(backend_, bytes_, stream_, is_captured_);
  log::debug("{}: {} bytes of a buffer go through memory of Plait's", call, bytes_);
}

Staging::~Staging() {
  try {
    const DeviceScope device(backend_);
    std::unique_ptr<DeviceEvent> event;
    if (!is_captured_) {
      event = backend_.create_event(false);
      event->record(stream_);
    }
    comm_->retire(memory_, bytes_, std::move(event));
  } catch (const std::exception& error) {  // a device that is lost, with its memory
    log::debug("{}", error.what());
  }
}

void Staging::copy(void* to, const void* from) {
  const DeviceScope device(backend_);
  backend_.copy(to, from, bytes_, stream_);
}

}  // namespace plait::nccl
