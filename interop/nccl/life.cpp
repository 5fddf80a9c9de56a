// NCCL's functions that end communicators or say what became of them.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "interop/nccl/border.hpp"
#include "interop/nccl/functions.hpp"
#include "interop/nccl/group.hpp"
#include "interop/nccl/make.hpp"
#include "plait/version.hpp"

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

template <class Ask>
Result tell(const char* call, CommHandle comm, int* result, const char* name, Ask&& ask) noexcept {
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    needed(call, result, name) = ask((*own)->look(call));
  });
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

Result plait::nccl::ncclCommGetAsyncError(CommHandle comm, Result* error) {
  constexpr const char* call = "ncclCommGetAsyncError";
  return guarded(call, [&] {
    const auto own = pin_to_the_last(call, comm);
    needed(call, error, "asyncError") = (*own)->state();
  });
}

Result plait::nccl::ncclCommCount(const CommHandle comm, int* count) {
  return tell("ncclCommCount", comm, count, "count", [](Communicator& of) { return of.size(); });
}
Result plait::nccl::ncclCommUserRank(const CommHandle comm, int* rank) {
  return tell("ncclCommUserRank", comm, rank, "rank", [](Communicator& of) { return of.rank(); });
}
Result plait::nccl::ncclCommCuDevice(const CommHandle comm, int* device) {
  return tell("ncclCommCuDevice", comm, device, "device",
              [](Communicator& of) { return backend_of(of).info().ordinal; });
}

Result plait::nccl::ncclCommQueryProperties(CommHandle comm, Properties* properties) {
  constexpr const char* call = "ncclCommQueryProperties";
  return guarded(call, [&] {
    const auto own = pin(call, comm);
    Properties& result = needed(call, properties, "props");
    if (result.magic != magic_of_config || result.size < sizeof(Properties))
      refuse(call, "the ncclCommProperties_t was not initialised");
    const Communicator& of = (*own)->look(call);
    const int device = backend_of(of).info().ordinal;
    // All that follows says what the device interface can do: nothing.
    std::memset(static_cast<void*>(&result + 1), 0, result.size - sizeof(Properties));
    result.rank = of.rank();
    result.ranks = of.size();
    result.cuda_device = result.nvml_device = device;
  });
}

Result plait::nccl::ncclGetVersion(int* code) {
  constexpr const char* call = "ncclGetVersion";
  return guarded(call, [&] { needed(call, code, "version") = version; });
}

const char* plait::nccl::ncclGetErrorString(Result result) {
  switch (result) {
    case Result::success:
      return "no error";
    case Result::unhandled_cuda_error:
      return "the device's runtime refused a call (ncclGetLastError says which)";
    case Result::system_error:
      return "memory ran out, or the system refused a call (ncclGetLastError says which)";
    case Result::internal_error:
      return "an error within Plait (ncclGetLastError has more)";
    case Result::invalid_argument:
      return "an argument is wrong (ncclGetLastError says which)";
    case Result::invalid_usage:
      return "Plait can't serve this call, or ranks disagree (ncclGetLastError has more)";
    case Result::remote_error:
      return "another rank is lost, has aborted or did not come (ncclGetLastError has more)";
    case Result::in_progress:
      return "the call has not ended yet";
    case Result::timeout:
      return "a deadline has passed";
  }
  return "this number is no result of NCCL";
}

const char* plait::nccl::ncclGetLastError(CommHandle comm) {
  try {
    if (comm != nullptr)
      if (std::string own = (*pin_to_the_last("ncclGetLastError", comm))->sentence(); !own.empty())
        return kept(std::move(own));
  } catch (const std::exception&) {  // a handle of no communicator: its error is the thread's
  }
  try {
    return kept(last_sentence());
  } catch (const std::exception&) {
    return "there is no host memory";
  }
}

void plait::nccl::ncclResetDebugInit() {
  static_cast<void>(guarded("ncclResetDebugInit", [] { read_debug_level(); }));
}
void plait::nccl::ncclResetDebugInitInternal() { ncclResetDebugInit(); }

Result plait::nccl::ncclGroupStart() {
  return guarded("ncclGroupStart", [] { Group::of_thread().start(); });
}
Result plait::nccl::ncclGroupEnd() { return Group::of_thread().end(); }

Result plait::nccl::ncclGroupSimulateEnd(Simulation* simulation) {
  constexpr const char* call = "ncclGroupSimulateEnd";
  const bool given = simulation != nullptr && simulation->magic == magic_of_simulation;
  float microseconds = 0;
  // The group ends in any case.
  const Result ended = Group::of_thread().simulate(microseconds);
  if (simulation != nullptr && !given)
    return fail(Result::invalid_argument,
                fmt::format("{}: the ncclSimInfo_t was not initialised", call));
  if (given && ended == Result::success) simulation->estimated_time = microseconds;
  return ended;
}
