// NCCL's functions that end communicators.
#include <chrono>
#include <future>

#include "core/log.hpp"
#include "core/start_thread.hpp"
#include "interop/nccl/errors.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"

namespace plait::nccl {
namespace {

/// Waits for all that the device was given, and lets no new call in.
void finish(Comm& comm) {
  comm.occupy(
      [](Communicator& own) {
        Backend& backend = backend_of(own);
        {
          const DeviceScope device(backend);
          backend.synchronize_device();
        }
        if (auto error = own.async_error()) throw *std::move(error);
      },
      Comm::Phase::finalized);
}

void remove(CommHandle handle) {
  static_cast<void>(Comms::instance().remove("ncclCommDestroy", id_of(handle)));
}

/// Frees the communicator, once its calls have ended.
void end(CommHandle handle, Comm& own) {
  own.await_calls();  // first, because ncclCommAbort needs the handle
  remove(handle);
  own.close();
}

/// Begins the end of a communicator that no other thread is inside.
std::shared_ptr<Comm> begin_end(const char* call, CommHandle handle) {
  const auto pinned = pin(call, handle);
  Comm& comm = **pinned;
  comm.refuse_if_inside(call);
  if (!comm.begin_end()) refuse_ending(call);
  // A thread may have come in since then. Calls that don't wait for anything leave soon.
  for (Backoff backoff(pace_of_users); !pinned.is_only(); backoff.pause()) try {
      comm.refuse_if_inside(call);
    } catch (const Error&) {
      if (comm.take_back_end()) throw;
    }
  return *pinned;
}

/// How long ncclCommAbort waits. An abort ends kernels within a second, but the device may have
/// calls of other communicators that only their abort ends.
constexpr std::chrono::seconds patience_of_abort{2};

/// Runs `end`, which frees an aborted communicator, on a thread, and waits for it as long as
/// `patience` says.
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

}  // namespace
}  // namespace plait::nccl

using namespace plait;  // NOLINT(google-build-using-namespace): the functions below are global
using namespace plait::nccl;

Result plait::nccl::ncclCommFinalize(CommHandle comm) {
  constexpr const char* call = "ncclCommFinalize";
  if (comm == nullptr) return Result::success;
  Result started = Result::success;
  const Result checked = grouped(call, [&] {
    const std::shared_ptr<Comm> own = *pin(call, comm);
    own->refuse_if_inside(call);
    static_cast<void>(own->use(call));
    started = run_or_add({.call = call,
                          .of = own,
                          .takes = true,
                          .body = [own] { finish(*own); },
                          .blocking = own->blocking});
  });
  return checked == Result::success ? started : checked;
}

Result plait::nccl::ncclCommDestroy(CommHandle comm) {
  constexpr const char* call = "ncclCommDestroy";
  if (comm == nullptr) return Result::success;
  Result done = Result::success;
  const Result checked = guarded(call, [&] {
    const std::shared_ptr<Comm> own = begin_end(call, comm);
    if (own->is_being_made()) own->abort("ncclCommDestroy while it was made");
    const auto body = [own, comm] { end(comm, *own); };
    // Dropped, it ends as the group forgets its calls.
    const auto drop = [comm](const Error&) { remove(comm); };
    if (Group::of_thread().is_open())
      done = run_or_add({.call = call, .of = own, .body = body, .drop = drop});
    else body();
  });
  return checked == Result::success ? done : checked;
}

Result plait::nccl::ncclCommAbort(CommHandle comm) {
  constexpr const char* call = "ncclCommAbort";
  if (comm == nullptr) return Result::success;
  Result done = Result::success;
  const Result checked = guarded(call, [&] {
    // At once, also in a group: other threads and this group's other communicators may wait for
    // kernels that only this ends.
    const std::shared_ptr<Comm> own = [&] {
      const auto pinned = pin_to_the_last(call, comm);
      (*pinned)->abort(call);
      return (*pinned)->begin_end() ? *pinned : nullptr;
    }();
    if (own == nullptr) return;  // the call that is ending it goes on
    const auto close = [own, comm](std::chrono::seconds patience) {
      close_soon([own, comm] { end(comm, *own); }, patience);
    };
    if (Group::of_thread().is_open())
      done = run_or_add({.call = call,
                         .of = own,
                         .body = [close] { close(patience_of_abort); },
                         .drop = [close](const Error&) { close(std::chrono::seconds(0)); }});
    else close(patience_of_abort);
  });
  return checked == Result::success ? done : checked;
}

Result plait::nccl::ncclCommRevoke(CommHandle comm, int flags) {
  constexpr const char* call = "ncclCommRevoke";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    if (flags != 0) refuse(call, fmt::format("flags are {}: there are none yet", flags));
    static_cast<void>((*own)->look(call));
    (*own)->abort("ncclCommRevoke");
  });
}
