#include "interop/nccl/make.hpp"

#include <chrono>
#include <future>

#include "bootstrap/bootstrap_hooks.hpp"
#include "core/environment.hpp"
#include "core/log.hpp"
#include "core/start_thread.hpp"
#include "interop/nccl/border.hpp"

namespace plait::nccl {

BackendKind target() {
  static const BackendKind kind = [] {
    if (const auto wish = environment("PLAIT_BACKEND")) return parse_backend(*wish);
    for (const BackendKind gpu : {BackendKind::cuda, BackendKind::hip})
      if (device_count(gpu) != 0) return gpu;
    return BackendKind::host;
  }();
  return kind;
}

Place place_of_thread() {
  const BackendKind kind = target();
  return {kind, kind == BackendKind::host ? -1 : current_device(kind)};
}

CommunicatorOptions options_at(const Place& place) {
  CommunicatorOptions options;
  options.backend = place.kind;
  options.device = place.device;
  // NCCL's calls wait for ever. Programs have watchdogs of their own, with limits that they choose.
  if (!environment("PLAIT_TIMEOUT")) options.timeout = std::chrono::nanoseconds(0);
  return options;
}

void adopt(Comm& comm, const std::function<Communicator()>& make) {
  comm.make([&] {
    Communicator made = make();
    // Two ranks need none: the one that is left meets no other.
    if (made.size() < 3) return made;
    UniqueId own;
    try {
      own = UniqueId::create();
    } catch (const Error& error) {  // the others get an id that is none
      log::info("this communicator can't be shrunk: {}", error.what());
    }
    comm.spares = made.bootstrap().all_gather(own);
    return made;
  });
}

void make_over(Comm& comm, std::unique_ptr<Bootstrap> bootstrap,
               const CommunicatorOptions& options) {
  // Until the communicator has its own means to end a wait.
  BootstrapHooks::set_interrupt(*bootstrap, [&comm] { comm.throw_if_aborted(); });
  adopt(comm, [&] { return Communicator::create(std::move(bootstrap), options); });
}

void make_over_id(Comm& comm, const UniqueId& id, int rank, int size,
                  const CommunicatorOptions& options) {
  // Meeting has Plait's deadline, whatever the calls have.
  make_over(comm, make_socket_bootstrap(id, rank, size), options);
}

void close_soon(std::function<void()> end, std::chrono::seconds patience) noexcept {
  try {
    auto done = std::make_shared<std::promise<void>>();
    const auto closed = done->get_future();
    start_thread("a thread that frees a communicator", [end = std::move(end), done]() mutable {
      static_cast<void>(guarded("ncclCommAbort", end));
      end = {};
      done->set_value();
    }).detach();
    if (closed.wait_for(patience) != std::future_status::ready)
      log::info("an aborted communicator is freed later: its device still has other work");
  } catch (const std::exception& error) {  // no thread, so its handle stays
    log::info("{}", error.what());
  }
}

}  // namespace plait::nccl
